// How deep a body may be nested: whatever reads it further on, serializers and templates among them, goes down level by
// level, on a stack that ends somewhere.

const MAX_LEVELS = 1000;

export function isTooDeep(body: unknown): boolean {
  let level = [body];
  for (let depth = 0; depth <= MAX_LEVELS; depth++) {
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null
        ? Object.values(value).filter((inner) => typeof inner === 'object' && inner !== null)
        : [],
    );
    if (level.length === 0) return false;
  }
  return true;
}
