// From what Postgres and the way to it say to errors that tell people what to do.

import { messageOf } from '../runtime/error-message.ts';
import { StoreError } from './store-error.ts';

/** The StoreError for what people can mend; anything else comes back as it is. */
export function explainPostgres(name: string, error: unknown): unknown {
  if (error instanceof StoreError || !(error instanceof Error)) return error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const explained = refusals[code] ?? spoken(code, error);
  if (explained !== undefined) return new StoreError('refused', `${name} ${explained(error)}`, error);
  if (busy.has(code)) {
    return new StoreError('busy', `${name} is held up by other changes. Try again.`, error);
  }
  const way = unreachable[code] ?? (isLostWay(code, error) ? 'does not answer' : undefined);
  if (way === undefined) return error;
  const advice = 'See that the server runs and can be reached from here, or choose another database.';
  return new StoreError('unreachable', `${name} ${way} (${messageOf(error)}). ${advice}`, error);
}

type Explain = (error: Error) => string;

const tls: Explain = (error) =>
  `cannot be trusted: ${messageOf(error)}. Name the authority's certificate with sslrootcert, or choose another sslmode.`;

const wrongPassword: Explain = (error) =>
  `does not let this user in: ${messageOf(error)}. Give the right user and password, in the address or as PGPASSWORD, or allow it in pg_hba.conf.`;

const refusals: Readonly<Record<string, Explain>> = {
  '28P01': wrongPassword,
  '28000': wrongPassword,
  '3D000': () => 'does not exist. Make it, as with createdb, or choose another.',
  '3F000': () => 'has no schema to make tables in. Make the one that search_path names.',
  '42501': (error) => `may not be used so: ${messageOf(error)}. Grant this user all on its schema.`,
  '25006': () => 'may only be read: it is a standby, or set so. Give the address of the primary.',
  '53100': () => 'cannot grow: its disk is full. Make room there.',
};

/** Deadlocks, and locks that were waited for too long. */
const busy: ReadonlySet<string> = new Set(['40001', '40P01', '55P03', '57014']);

const unreachable: Readonly<Record<string, string>> = {
  '53300': 'has too many connections',
  '57P01': 'is shutting down',
  '57P02': 'has crashed',
  '57P03': 'is starting up or shutting down',
  ENOTFOUND: 'names a host that is not known',
  ENOENT: 'has no socket there',
  ECONNREFUSED: 'does not answer',
};

const NETWORK_CODES =
  /^(08...|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|ECONNRESET|ECONNABORTED|EPIPE|EACCES)$/;

/** The library gives no code where a connection ends or something takes too long. */
const LOST_WORDS = /connection (was )?(terminated|ended)|timeout|not queryable|cannot use a pool after/i;

function isLostWay(code: string, error: Error): boolean {
  return NETWORK_CODES.test(code) || (code === '' && LOST_WORDS.test(error.message));
}

/** What the way there refuses, and the library says in words of its own. */
function spoken(code: string, { message }: Error): Explain | undefined {
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_)/.test(code)) return tls;
  if (code !== '') return undefined;
  if (/does not support SSL/.test(message))
    return () => 'speaks no TLS. Turn it on there, or say sslmode=disable.';
  return /^SASL/.test(message) ? wrongPassword : undefined;
}
