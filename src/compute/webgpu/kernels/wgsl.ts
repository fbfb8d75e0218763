// WGSL that many kernels share.

/** A float: infinities are no literals. */
export const finite = (value: number): string => `f32(${Math.max(-3.4e38, Math.min(3.4e38, value))})`;

/** Lines that differ in a number. */
export function repeat(count: number, line: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => line(index)).join('\n');
}

/**
 * Declares `rowSum(value, thread)`, which gives every thread the sum over a workgroup, in one order: some neighbours first,
 * then those sums one after the other.
 */
export function rowSum(threads: number): string {
  const each = Math.max(1, threads / 32);
  return /* wgsl */ `
var<workgroup> shares: array<f32, ${threads}>;
var<workgroup> subtotals: array<f32, 32>;
fn rowSum(value: f32, thread: u32) -> f32 {
  shares[thread] = value;
  workgroupBarrier();
  if (thread < 32u) {
    var sum = 0.0;
    for (var i = 0u; i < ${each}u; i++) { sum += shares[thread * ${each}u + i]; }
    subtotals[thread] = sum;
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < 32u; i++) { sum += subtotals[i]; }
  return sum;
}`;
}
