// Unknown keys inside of parameters, such as `messages[].nme`: they are ignored, and the client is sent their names.

/** By the path of an object, with `[]` for the items of a list: the keys that are known in it. */
export type KnownKeys = Readonly<Record<string, readonly string[]>>;

/** Each once, in the order in which they are found. */
export function unknownKeys(known: KnownKeys, body: Readonly<Record<string, unknown>>): string[] {
  const unknown = new Set<string>();
  for (const [path, keys] of Object.entries(known)) {
    for (const object of objectsAt(path.split('.'), body)) {
      for (const [key, value] of Object.entries(object)) {
        if (value !== null && value !== undefined && !keys.includes(key)) unknown.add(`${path}.${key}`);
      }
    }
  }
  return [...unknown];
}

function objectsAt(steps: readonly string[], value: unknown): readonly object[] {
  const [step, ...rest] = steps;
  if (typeof value !== 'object' || value === null) return [];
  if (step === undefined) return Array.isArray(value) ? [] : [value];
  const isList = step.endsWith('[]');
  const inner = (value as Record<string, unknown>)[isList ? step.slice(0, -2) : step];
  if (!isList) return objectsAt(rest, inner);
  return Array.isArray(inner) ? inner.flatMap((item) => objectsAt(rest, item)) : [];
}
