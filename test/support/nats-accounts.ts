// An operator, accounts and users of a NATS server, as `nsc` would make them: JWTs signed by nkeys.

import { nkeys } from '@nats-io/transport-node';

type KeyPair = ReturnType<typeof nkeys.createUser>;

const encoder = new TextEncoder();
const unlimited = { subs: -1, data: -1, payload: -1 };
const accountLimits = {
  ...unlimited,
  ...{ imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 },
  ...{ mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 },
};

export class NatsOperator {
  readonly #key = nkeys.createOperator();
  readonly #accounts = new Map<string, KeyPair>();
  /** Keys of an account that sign users with its permissions alone, by account. */
  readonly #scopes = new Map<string, object>();

  constructor(...accounts: readonly string[]) {
    for (const name of ['SYS', ...accounts]) this.#accounts.set(name, nkeys.createAccount());
  }

  /** What a server needs to know of it. */
  get settings(): string[] {
    const system = this.#account('SYS').getPublicKey();
    const claims = { type: 'operator', version: 2, system_account: system };
    const jwts = [...this.#accounts].map(([name, key]) => {
      // The system's account may keep nothing.
      const limits = name === 'SYS' ? { ...accountLimits, mem_storage: 0, disk_storage: 0 } : accountLimits;
      return `${key.getPublicKey()}: ${signed(this.#key, key, name, {
        ...{ type: 'account', version: 2, limits },
        ...(this.#scopes.has(name) ? { signing_keys: [this.#scopes.get(name)] } : {}),
      })}`;
    });
    return [
      `operator: ${signed(this.#key, this.#key, 'operator', claims)}`,
      `system_account: ${system}`,
      'resolver: MEMORY',
      `resolver_preload: {\n${jwts.join('\n')}\n}`,
    ];
  }

  /** The credentials file of a new user. */
  userOf(account: string, times: { readonly exp?: number } = {}): string {
    const user = nkeys.createUser();
    const claims = { type: 'user', version: 2, ...unlimited, pub: {}, sub: {} };
    return credentialsFile(signed(this.#account(account), user, 'user', claims, times), seedOf(user));
  }

  /** Signs users who may do what a template says; ask for it before the settings. */
  scopeOf(account: string, template: object): { userOf(name: string): string } {
    const key = nkeys.createAccount();
    const scope = { kind: 'user_scope', key: key.getPublicKey(), template: { ...template, ...unlimited } };
    this.#scopes.set(account, scope);
    const issuer_account = this.#account(account).getPublicKey();
    return {
      userOf: (name) => {
        const user = nkeys.createUser();
        const claims = { type: 'user', version: 2, issuer_account };
        return credentialsFile(signed(key, user, name, claims), seedOf(user));
      },
    };
  }

  #account(name: string): KeyPair {
    const key = this.#accounts.get(name);
    if (key === undefined) throw new Error(`there is no account ${name}`);
    return key;
  }
}

export function seedOf(key: KeyPair): string {
  return new TextDecoder().decode(key.getSeed());
}

export function credentialsFile(jwt: string, seed: string): string {
  return [
    '-----BEGIN NATS USER JWT-----',
    jwt,
    '------END NATS USER JWT------',
    '',
    'Keep the seed to yourself.',
    '',
    '-----BEGIN USER NKEY SEED-----',
    seed,
    '------END USER NKEY SEED------',
    '',
  ].join('\n');
}

function signed(issuer: KeyPair, subject: KeyPair, name: string, nats: object, times: object = {}): string {
  const claims = {
    jti: `${name}-${subject.getPublicKey()}`,
    iat: Math.floor(Date.now() / 1000),
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name,
    nats,
    ...times,
  };
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const body = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part(claims)}`;
  return `${body}.${Buffer.from(issuer.sign(encoder.encode(body))).toString('base64url')}`;
}
