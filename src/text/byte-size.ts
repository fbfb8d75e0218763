// Sizes as people read them, on the page and in a terminal alike. Units are those of SI, as disks and the hub count: 1 KB is 1000 B.

const units = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

/** Three digits that count. */
export function formatBytes(bytes: number): string {
  let amount = bytes;
  let unit = 0;
  // From 999.5 on it is 1000 once rounded.
  while (amount >= (unit === 0 ? 1000 : 999.5) && unit < units.length - 1) {
    amount /= 1000;
    unit++;
  }
  const digits = unit === 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
  return `${amount.toFixed(digits)} ${units[unit]}`;
}
