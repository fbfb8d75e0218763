import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { createSecureContext } from 'node:tls';
import { type Config, ConfigError } from '../config.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { TlsPair } from '../server/context.ts';

/** Rejects with the system's error where the address is taken. */
export function tryAddress(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host, port }, () => server.close(() => resolve()));
  });
}

export function readTls({ tlsCert, tlsKey }: Pick<Config, 'tlsCert' | 'tlsKey'>): TlsPair | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined)
    throw new ConfigError('--tls-key: needs --tls-cert, the certificate it belongs to');
  if (tlsKey === undefined) throw new ConfigError('--tls-cert: needs --tls-key, its private key');
  const pair = { cert: read('--tls-cert', tlsCert), key: read('--tls-key', tlsKey) };
  try {
    createSecureContext(pair);
  } catch (error) {
    throw new ConfigError(`--tls-cert: ${tlsCert} and ${tlsKey} do not work together: ${messageOf(error)}`);
  }
  return pair;
}

function read(flag: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new ConfigError(`${flag}: ${path} cannot be read: ${messageOf(error)}`);
  }
}
