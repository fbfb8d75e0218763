// A sum over all threads of a workgroup, in one order: some neighbours first, then those sums one after the other.

/** Declares `rowSum(value, thread)`, which gives every thread the whole sum. */
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
