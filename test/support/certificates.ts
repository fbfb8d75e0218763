// Certificates of a test's own, made by `openssl`: authorities, and what rests on them.

import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Why none can be made here, if they cannot. */
export function certificatesRefusal(): string | undefined {
  return spawnSync('openssl', ['version']).error === undefined ? undefined : 'openssl is not installed';
}

export interface Certificate {
  /** Paths of files in PEM. */
  readonly cert: string;
  readonly key: string;
}

export class Authority {
  readonly #folder: string;
  readonly #own: Certificate;

  constructor(folder: string, name: string) {
    this.#folder = folder;
    this.#own = this.#make(name, 'basicConstraints=critical,CA:TRUE', undefined);
  }

  /** Its certificate, for those who trust it. */
  get cert(): string {
    return this.#own.cert;
  }

  /** For names such as `IP:127.0.0.1` or `DNS:localhost`. */
  sign(name: string, ...names: readonly string[]): Certificate {
    const alternatives =
      names.length === 0 ? 'basicConstraints=CA:FALSE' : `subjectAltName=${names.join(',')}`;
    return this.#make(name, alternatives, this.#own);
  }

  #make(name: string, extension: string, issuer: Certificate | undefined): Certificate {
    const path = (kind: string) => join(this.#folder, `${name}.${kind}`);
    const [cert, key, request, extensions] = [path('pem'), path('key'), path('csr'), path('ext')];
    writeFileSync(extensions, extension);
    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key);
    openssl('req', '-new', '-key', key, '-subj', `/CN=${name}`, '-out', request);
    const by =
      issuer === undefined
        ? ['-signkey', key]
        : ['-CA', issuer.cert, '-CAkey', issuer.key, '-CAcreateserial'];
    openssl('x509', '-req', '-in', request, ...by, '-days', '2', '-extfile', extensions, '-out', cert);
    return { cert, key };
  }
}

function openssl(...args: readonly string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' });
}
