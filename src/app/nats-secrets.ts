// Files that say who a node is at the message system: the seed of an nkey, or a user's credentials, which are such a seed and
// a JWT. What is in them is never told, neither in errors nor in logs.

import { readFileSync } from 'node:fs';
import type { nkeys } from '@nats-io/transport-node';
import { ConfigError } from '../config.ts';
import { messageOf } from '../runtime/error-message.ts';

type Nkeys = typeof nkeys;

interface UserCredentials {
  readonly jwt: string;
  readonly seed: Uint8Array;
}

interface UserClaims {
  /** The public key that the JWT is for. */
  readonly sub?: unknown;
  /** In seconds; absent where it never expires. */
  readonly exp?: unknown;
  readonly nats?: { readonly type?: unknown };
}

export function readText(flag: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${flag}: ${path} cannot be read: ${messageOf(error)}`);
  }
}

/** Of a file with the seed on a line of its own, as `nk -gen user` writes it. */
export function readSeed(flag: string, path: string, nkeys: Nkeys): Uint8Array {
  return seedIn(flag, path, readText(flag, path), nkeys);
}

/** Of a file as `nsc generate creds` writes it. */
export function readCredentials(flag: string, path: string, nkeys: Nkeys): UserCredentials {
  const content = readText(flag, path);
  const jwt = /-----BEGIN NATS USER JWT-----\s+([\w-]+\.[\w-]+\.[\w-]+)\s+-/.exec(content)?.[1];
  if (jwt === undefined) {
    throw new ConfigError(`${flag}: ${path} has no user JWT; give a file as nsc generate creds writes it`);
  }
  const seed = seedIn(flag, path, content, nkeys);
  const problem = claimsProblem(claimsOf(jwt), nkeys.fromSeed(seed).getPublicKey());
  if (problem !== undefined) throw new ConfigError(`${flag}: ${path} ${problem}`);
  return { jwt, seed };
}

function seedIn(flag: string, path: string, content: string, nkeys: Nkeys): Uint8Array {
  const found = /^\s*(S[A-Z2-7]{57})\s*$/m.exec(content)?.[1];
  if (found === undefined) {
    throw new ConfigError(
      `${flag}: ${path} has no seed, a line of 58 letters and digits that begins with SU`,
    );
  }
  if (!found.startsWith('SU')) {
    throw new ConfigError(`${flag}: ${path} has a seed that is no user’s; those begin with SU`);
  }
  const seed = new TextEncoder().encode(found);
  try {
    nkeys.fromSeed(seed);
  } catch {
    throw new ConfigError(`${flag}: ${path} has a damaged seed: its checksum is wrong`);
  }
  return seed;
}

function claimsOf(jwt: string): UserClaims | undefined {
  try {
    return JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString('utf8')) as UserClaims;
  } catch {
    return undefined;
  }
}

function claimsProblem(claims: UserClaims | undefined, publicKey: string): string | undefined {
  if (claims?.nats?.type !== 'user') return 'has a JWT that is damaged, or no user’s';
  if (claims.sub !== publicKey) return 'has a JWT and a seed that do not belong together';
  if (typeof claims.exp === 'number' && claims.exp > 0 && claims.exp * 1000 <= Date.now()) {
    return `expired on ${new Date(claims.exp * 1000).toISOString()}: have new credentials made`;
  }
  return undefined;
}
