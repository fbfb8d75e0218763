// `response_fields`: an answer with these fields alone.

/** `a/b` is the field b of a, under that name. Fields that are not there are left out. Nothing asked for is everything. */
export function onlyFields(body: object, fields: readonly string[] = []): object {
  if (fields.length === 0) return body;
  const found = fields.flatMap((path) => {
    const value = valueAt(body, path.split('/'));
    return value === undefined ? [] : [[path, value] as const];
  });
  return Object.fromEntries(found);
}

function valueAt(body: object, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Record<string, unknown>)[name]
        : undefined,
    body,
  );
}
