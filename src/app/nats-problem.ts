// Why a message system cannot be joined, and what to do about it.

import type { Config } from '../config.ts';
import { messageOf } from '../runtime/error-message.ts';

type Settings = Pick<
  Config,
  'natsUser' | 'natsToken' | 'natsCredentials' | 'natsNkey' | 'natsCa' | 'natsCert'
>;

const untrusted: readonly string[] = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
];

/** Includes unknown names, such as a container that has not started. */
const absent: readonly string[] = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'];

/** A server may still come: none has refused. */
export function isNobodyThere(error: unknown): boolean {
  const { code, cause } = error as { readonly code?: string; readonly cause?: { readonly code?: string } };
  return absent.includes(code ?? cause?.code ?? '');
}

export function natsProblem(error: unknown, settings: Settings): string {
  const message = messageOf(error);
  const { name, code = '' } = error as { readonly name?: string; readonly code?: string };
  if (name === 'UserAuthenticationExpiredError') return `the credentials have expired: have new ones made`;
  if (name === 'AuthorizationError') return refused(settings);
  if (name === 'TimeoutError') return silentWords(settings);
  if (message === 'unexpected response from server') {
    return 'it does not speak as a NATS server does; is the address right?';
  }
  if (message === 'connection refused') return 'nothing listens there; is the address right?';
  if (message.includes("does not support 'tls'")) {
    return 'it speaks no TLS, and nothing is sent in the clear where tls:// or a certificate is named: have it speak TLS, or join it with nats://';
  }
  if (untrusted.includes(code)) return untrustedWords(settings);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `its certificate is for another server: ${message}; join it by a name that is in its certificate`;
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    return `its certificate is not valid today: ${message}`;
  }
  if (code.includes('_ALERT_')) return unshownWords(settings, message);
  return message;
}

function refused({ natsUser, natsToken, natsCredentials, natsNkey }: Settings): string {
  if (natsUser !== undefined) return 'it refuses this user and password (--nats-user, --nats-password)';
  if (natsToken !== undefined) return 'it refuses this token (--nats-token)';
  if (natsCredentials !== undefined)
    return `it refuses the credentials in ${natsCredentials} (--nats-credentials)`;
  if (natsNkey !== undefined) return `it does not know the nkey in ${natsNkey} (--nats-nkey)`;
  return 'it asks for credentials: give --nats-user, --nats-token, --nats-credentials or --nats-nkey';
}

function untrustedWords({ natsCa }: Settings): string {
  return natsCa === undefined
    ? 'its certificate rests on none that is trusted here: name the one it rests on with --nats-ca'
    : `its certificate rests on none of those in ${natsCa} (--nats-ca)`;
}

/**
 * With TLS 1.3 the client considers the handshake done before the server has checked its certificate, and then waits
 * in vain.
 */
function silentWords({ natsCert }: Settings): string {
  const certificate =
    natsCert === undefined
      ? 'does it ask for a certificate of this node (--nats-cert, --nats-key)?'
      : `does it not take the certificate in ${natsCert} (--nats-cert)?`;
  return `it does not answer as a NATS server would; is the address right? ${certificate}`;
}

/** The server ended the handshake: mostly for a wrong or missing client certificate. */
function unshownWords({ natsCert }: Settings, message: string): string {
  return natsCert === undefined
    ? `it asks for a certificate of this node: give --nats-cert and --nats-key (${message})`
    : `it does not take the certificate in ${natsCert} (--nats-cert): ${message}`;
}
