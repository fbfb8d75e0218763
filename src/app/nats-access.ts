// How a node comes to its message system: addresses, who it says it is, and whom it trusts. Every setting is checked, and every file
// read, before anything starts.

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { type ConnectionOptions, checkServerIdentity, createSecureContext } from 'node:tls';
import type { Authenticator, NodeConnectionOptions, TlsOptions } from '@nats-io/transport-node';
import { type Config, ConfigError } from '../config.ts';
import { flagOf, type OptionName, variableOf } from '../config-options.ts';
import { messageOf } from '../runtime/error-message.ts';
import { readCredentials, readSeed, readText } from './nats-secrets.ts';

const identities = ['natsUser', 'natsToken', 'natsCredentials', 'natsNkey'] as const;
const files = ['natsCa', 'natsCert', 'natsKey'] as const;
const settings: readonly OptionName[] = [...identities, 'natsPassword', ...files];

/** Throws where something is said to a message system, and none is named. */
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
    // One server that must be encrypted is no reason to speak in the clear to another.
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

/** A server would take one of two, and nobody could say which. */
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

/** Throws now where it cannot be read. Later, each connection reads again, and what cannot be read leaves what there was. */
function renewed<Content>(read: () => Content): () => Content {
  let latest = read();
  return () => {
    try {
      latest = read();
    } catch {
      // Halfway through being replaced, for one.
    }
    return latest;
  };
}

/** Named, not read: the client reads them for each connection, so that they can be replaced. */
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

/** Node takes a file without certificates for one that trusts nobody, and says so only when it connects. */
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
 * A server that was named by its address must have a certificate for that address. The client tells Node no name then, and Node
 * would take one for localhost. Node calls this on the options of the connection.
 */
function checkName(
  this: { readonly servername?: string; readonly socket?: { readonly remoteAddress?: string } } | undefined,
  name: string,
  certificate: Parameters<typeof checkServerIdentity>[1],
): Error | undefined {
  return checkServerIdentity(this?.servername || this?.socket?.remoteAddress || name, certificate);
}
