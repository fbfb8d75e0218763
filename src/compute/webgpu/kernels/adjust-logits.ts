// Bias, penalties and forbidden tokens (adjustedLogits in src/sampling/sampler.ts), applied to a row of logits in place and
// undone afterwards: later readers, on the GPU or the processor, find logits as the model made them.

import { jobWords } from '../../device-sampling/sampling-layout.ts';

/**
 * Declares `adjust` and `restore` for the buffers `samples`, `logits` and `saved`. A token may be in all three lists, in
 * none twice.
 */
export function adjustLogits(threads: number): string {
  const word = (place: number) => `samples[job + ${place}u]`;
  const factor = (place: number) => `bitcast<f32>(${word(place)})`;
  const forEach = (list: number, body: string) => /* wgsl */ `
  {
    let at = ${word(list)};
    let count = ${word(list + 1)};
    if (count > 0u) {
      for (var i = at + thread; i < at + count; i += ${threads}u) {
        // Nothing reaches into another row.
        if (samples[i] >= ${word(jobWords.vocabSize)}) { continue; }
        let place = base + samples[i];
        ${body}
      }
      storageBarrier();
    }
  }`;
  const replace = (value: string) => `
        let bits = logits[place];
        saved[i] = bits;
        ${value}`;
  const putBack = 'logits[place] = saved[i];';
  return /* wgsl */ `
fn penalize(job: u32, logit: f32, generated: u32, zero: u32) -> f32 {
  let factor = select(${factor(jobWords.inverseRepetition)}, ${factor(jobWords.repetition)}, logit < 0.0);
  let taken = opaque(f32(generated) * ${factor(jobWords.frequency)}, zero) + ${factor(jobWords.presence)};
  return opaque(logit * factor, zero) - select(0.0, taken, generated > 0u);
}
fn adjust(job: u32, base: u32, thread: u32, zero: u32) {
  ${forEach(
    jobWords.biased,
    replace(`let bias = bitcast<f32>(samples[i + count]);
        if (isPlain(bits)) { logits[place] = bitcast<u32>(bitcast<f32>(bits) + bias); }`),
  )}
  ${forEach(
    jobWords.penalized,
    replace(`let generated = samples[i + count];
        if (isPlain(bits)) { logits[place] = bitcast<u32>(penalize(job, bitcast<f32>(bits), generated, zero)); }`),
  )}
  // An odd row stays one.
  ${forEach(jobWords.forbidden, replace('if (isPlain(bits)) { logits[place] = excluded; }'))}
}
fn restore(job: u32, base: u32, thread: u32) {
  ${forEach(jobWords.forbidden, putBack)}
  ${forEach(jobWords.penalized, putBack)}
  ${forEach(jobWords.biased, putBack)}
}
`;
}
