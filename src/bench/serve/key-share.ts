// The API keys of a load, each with a name to report by and a weight: how much of the load it sends.

export interface KeyShare {
  readonly name: string;
  /** Undefined where the server asks for none. */
  readonly secret: string | undefined;
  readonly weight: number;
}

export const KEY_FORMS = 'KEY, name=KEY or name:weight=KEY';

/** Without any, one share that sends no key. */
export const noKey: KeyShare = { name: 'anonymous', secret: undefined, weight: 1 };

/** A key may itself end in `=`, as base64 does; only what stands behind a name and `=` is taken from it. */
export function parseKey(text: string, number: number): KeyShare | undefined {
  if (text.trim() === '') return undefined;
  const [, name, weight, secret] = /^([\w.-]+)(?::(\d+(?:\.\d+)?))?=(.*[^=].*)$/.exec(text) ?? [];
  if (name === undefined || secret === undefined) return { name: `key-${number}`, secret: text, weight: 1 };
  if (weight !== undefined && Number(weight) <= 0) return undefined;
  return { name, secret, weight: Number(weight ?? 1) };
}

/** Deals requests out by weight as evenly as can be: after any number each key is within one of its share. */
export function dealKeys(keys: readonly KeyShare[], count: number): KeyShare[] {
  const total = keys.reduce((sum, { weight }) => sum + weight, 0);
  const credit = keys.map(() => 0);
  return Array.from({ length: count }, () => {
    let best = 0;
    keys.forEach(({ weight }, n) => {
      credit[n] = (credit[n] ?? 0) + weight / total;
      if ((credit[n] ?? 0) > (credit[best] ?? 0) + 1e-9) best = n;
    });
    credit[best] = (credit[best] ?? 0) - 1;
    return keys[best] as KeyShare;
  });
}
