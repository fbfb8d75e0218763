// Lines of WGSL that differ in a number.

export function repeat(count: number, line: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => line(index)).join('\n');
}
