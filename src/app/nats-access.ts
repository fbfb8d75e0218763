// How a node reaches its message system: addresses, its identity, and whom it trusts. All settings and files are checked before
// anything starts.

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ConnectionOptions, checkServerIdentity, createSecureContext } from 'node:tls';
import type { Authenticator, NodeConnectionOptions, nkeys, TlsOptions } from '@nats-io/transport-node';
import { type Config, ConfigError } from '../config.ts';
import { flagOf, type OptionName, variableOf } from '../config-options.ts';
import { messageOf } from '../runtime/error-message.ts';

const identities = ['natsUser', 'natsToken', 'natsCredentials', 'natsNkey'] as const;
const files = ['natsCa', 'natsCert', 'natsKey'] as const;
const settings: readonly OptionName[] = [...identities, 'natsPassword', ...files];

/** Throws where settings of a message system are given without a server. */
export function refuseWithoutServers(config: Config): void {
  const idle = settings.find((name) => config[name] !== undefined);
  if (idle === undefined) return;
  throw new ConfigError(`${flagOf(idle)}: needs --join, the message system it is for`);
}

export async function natsAccess(config: Config): Promise<NodeConnectionOptions> {
  const addresses = config.join.map(readAddress);
  checkIdentity(config);
  const isSecure =
    addresses.some((url) => url.startsWith('tls:')) || files.some((name) => config[name] !== undefined);
  return {
    servers: addresses,
    ...(await identity(config)),
    // One server that needs TLS turns it on for all.
    ...(isSecure ? { tls: tlsOptions(config) } : {}),
  };
}

function readAddress(given: string): string {
  if (given.includes('@')) {
    throw new ConfigError(
      `--join: an address holds no user and no password; give them as --nats-user and ${variableOf('natsPassword')}, or ${variableOf('natsToken')}`,
    );
  }
  const url = parseUrl(/^[a-z][a-z\d+.-]*:\/\//i.test(given) ? given : `nats://${given}`);
  const isKnown = url?.protocol === 'nats:' || url?.protocol === 'tls:';
  if (url === undefined || !isKnown || url.hostname === '' || !/^\/?$/.test(url.pathname + url.search)) {
    throw new ConfigError(
      `--join: give addresses such as nats://10.0.0.1:4222 or tls://nats.example:4222, not ${given}`,
    );
  }
  return `${url.protocol}//${url.host}`;
}

function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/** With two identities it would be unclear which one the server takes. */
function checkIdentity(config: Config): void {
  const { natsUser, natsPassword } = config;
  const [first, second] = identities.filter((name) => config[name] !== undefined);
  if (first !== undefined && second !== undefined) {
    throw new ConfigError(
      `${flagOf(second)}: ${flagOf(first)} says already who this node is; leave one of them out`,
    );
  }
  if (natsUser !== undefined && natsPassword === undefined) {
    throw new ConfigError(`--nats-user: needs its password, given as ${variableOf('natsPassword')}`);
  }
  if (natsUser === undefined && natsPassword !== undefined) {
    throw new ConfigError('--nats-password: needs --nats-user, whose password it is');
  }
}

async function identity({
  natsUser,
  natsPassword,
  natsToken,
  natsCredentials,
  natsNkey,
}: Config): Promise<NodeConnectionOptions> {
  if (natsUser !== undefined && natsPassword !== undefined) return { user: natsUser, pass: natsPassword };
  if (natsToken !== undefined) return { token: natsToken };
  const { jwtAuthenticator, nkeyAuthenticator, nkeys } = await import('@nats-io/transport-node');
  if (natsCredentials !== undefined) {
    const latest = renewed(() => readCredentials('--nats-credentials', natsCredentials, nkeys));
    const authenticator: Authenticator = (nonce) => {
      const { jwt, seed } = latest();
      return jwtAuthenticator(jwt, seed)(nonce);
    };
    return { authenticator };
  }
  if (natsNkey === undefined) return {};
  return { authenticator: nkeyAuthenticator(renewed(() => readSeed('--nats-nkey', natsNkey, nkeys))) };
}

/** Throws now where it cannot be read. Later, each connection reads it again and keeps the old content on failure. */
function renewed<Content>(read: () => Content): () => Content {
  let latest = read();
  return () => {
    try {
      latest = read();
    } catch {
      // It may be halfway replaced.
    }
    return latest;
  };
}

/** Paths, not contents: the client reads them for each connection, so that they can be replaced. */
function tlsOptions({ natsCa, natsCert, natsKey }: Config): TlsOptions {
  if (natsCa !== undefined) checkAuthorities(natsCa);
  if (natsCert !== undefined && natsKey === undefined)
    throw new ConfigError('--nats-cert: needs --nats-key, its private key');
  if (natsCert === undefined && natsKey !== undefined)
    throw new ConfigError('--nats-key: needs --nats-cert, the certificate it belongs to');
  if (natsCert !== undefined && natsKey !== undefined) checkPair(natsCert, natsKey);
  const options: TlsOptions & Pick<ConnectionOptions, 'checkServerIdentity'> = {
    checkServerIdentity: checkName,
    ...(natsCa === undefined ? {} : { caFile: natsCa }),
    ...(natsCert === undefined ? {} : { certFile: natsCert }),
    ...(natsKey === undefined ? {} : { keyFile: natsKey }),
  };
  return options;
}

/** Node takes a file without certificates for one that trusts nobody, and fails only on connecting. */
function checkAuthorities(path: string): void {
  const blocks = readText('--nats-ca', path).match(
    /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g,
  );
  if (blocks === null) throw new ConfigError(`--nats-ca: ${path} has no certificate in PEM`);
  try {
    for (const block of blocks) new X509Certificate(block);
  } catch (error) {
    throw new ConfigError(`--nats-ca: ${path} has a certificate that cannot be read: ${messageOf(error)}`);
  }
}

function checkPair(certPath: string, keyPath: string): void {
  const cert = readText('--nats-cert', certPath);
  const key = readText('--nats-key', keyPath);
  try {
    createPrivateKey(key);
  } catch {
    throw new ConfigError(`--nats-key: ${keyPath} is no private key in PEM without a passphrase`);
  }
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    throw new ConfigError(
      `--nats-cert: ${certPath} and ${keyPath} do not work together: ${messageOf(error)}`,
    );
  }
}

/**
 * A server named by its IP address needs a certificate for that address. The client passes no name then, and Node
 * would check for localhost.
 */
function checkName(
  this: { readonly servername?: string; readonly socket?: { readonly remoteAddress?: string } } | undefined,
  name: string,
  certificate: Parameters<typeof checkServerIdentity>[1],
): Error | undefined {
  return checkServerIdentity(this?.servername || this?.socket?.remoteAddress || name, certificate);
}

type Nkeys = typeof nkeys;

interface UserCredentials {
  readonly jwt: string;
  readonly seed: Uint8Array;
}

interface UserClaims {
  readonly sub?: unknown;
  /** In seconds; absent where it never expires. */
  readonly exp?: unknown;
  readonly nats?: { readonly type?: unknown };
}

function readText(flag: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${flag}: ${path} cannot be read: ${messageOf(error)}`);
  }
}

/** A seed on a line of its own, as `nk -gen user` writes it. */
function readSeed(flag: string, path: string, nkeys: Nkeys): Uint8Array {
  return seedIn(flag, path, readText(flag, path), nkeys);
}

/** As `nsc generate creds` writes it. */
function readCredentials(flag: string, path: string, nkeys: Nkeys): UserCredentials {
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
