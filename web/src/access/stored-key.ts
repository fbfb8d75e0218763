// The key this tab uses. It is kept for the tab alone, and nowhere that outlives it.

const NAME = 'chairlift.key';

export function storedKey(): string | undefined {
  return sessionStorage.getItem(NAME) ?? undefined;
}

export function storeKey(key: string): void {
  sessionStorage.setItem(NAME, key);
}

export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
}
