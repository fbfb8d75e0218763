// Parses postgres://user:password@host:5432/name?sslmode=verify-full. Absent parts, such as the password, come from
// the environment (PGPASSWORD) or ~/.pgpass.

import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { ClientConfig } from 'pg';
import { messageOf } from '../runtime/error-message.ts';
import { StoreError } from './database.ts';

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
const PARAMETERS = ['host', 'options', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'] as const;

type SslMode = (typeof SSL_MODES)[number];
type Parameters = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>;

export function isPostgresAddress(location: string): boolean {
  return /^postgres(ql)?:\/\//.test(location);
}

export function withoutPassword(location: string): string {
  return isPostgresAddress(location) ? location.replace(/^(\w+:\/\/[^:@/]*):.*@/s, '$1@') : location;
}

export function readAddress(location: string): ClientConfig {
  try {
    const url = new URL(location);
    const parameters = parametersOf(url);
    const given: ClientConfig = {
      // May be the folder of the server's socket.
      host: parameters.host ?? decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/, '$1'),
      port: url.port === '' ? undefined : Number(url.port),
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      database: decodeURIComponent(url.pathname.slice(1)),
      options: parameters.options,
    };
    if (given.host?.includes(',')) throw new Error('it names several hosts; give one');
    const said = Object.entries(given).filter(([, value]) => value !== undefined && value !== '');
    return { ...Object.fromEntries(said), ...tlsOf(parameters) };
  } catch (error) {
    const problem = error instanceof URIError || isInvalidUrl(error) ? unreadable : messageOf(error);
    throw new StoreError('refused', `${withoutPassword(location)} is no address of a database: ${problem}`);
  }
}

const unreadable =
  'it is written postgres://user:password@host:port/name, with %-codes for other characters than letters and digits';

function isInvalidUrl(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_INVALID_URL';
}

function parametersOf({ searchParams }: URL): Parameters {
  for (const name of searchParams.keys()) {
    if (PARAMETERS.some((one) => one === name)) continue;
    throw new Error(`it has the parameter ${name}; these are known: ${PARAMETERS.join(', ')}`);
  }
  return Object.fromEntries(searchParams);
}

/** PGSSLMODE applies where the address says nothing. */
function tlsOf({ sslmode, sslrootcert, sslcert, sslkey }: Parameters): Pick<ClientConfig, 'ssl'> {
  if (sslmode === undefined) {
    if ((sslrootcert ?? sslcert ?? sslkey) === undefined) return {};
    throw new Error('it names certificates but no sslmode; add sslmode=verify-full');
  }
  if (!isSslMode(sslmode)) throw new Error(`its sslmode is one of ${SSL_MODES.join(', ')}, not ${sslmode}`);
  if (sslmode === 'disable') return { ssl: false };
  const files: ConnectionOptions = {
    ...(sslrootcert === undefined ? {} : { ca: readFileSync(sslrootcert) }),
    ...(sslcert === undefined ? {} : { cert: readFileSync(sslcert) }),
    ...(sslkey === undefined ? {} : { key: readFileSync(sslkey) }),
  };
  if (sslmode === 'require') return { ssl: { ...files, rejectUnauthorized: false } };
  if (sslmode === 'verify-ca') return { ssl: { ...files, checkServerIdentity: () => undefined } };
  return { ssl: files };
}

function isSslMode(text: string): text is SslMode {
  return SSL_MODES.some((mode) => mode === text);
}
