// What samplers measure of all candidates: the spread of logits, and the temperature that follows from their entropy.

import { binaryLogarithm, powerOfTwo, unitBitsFor, type WeightSums } from './exponential.ts';
import type { SamplingParameters } from './parameters.ts';

/** Of the logits above -Infinity. */
export function standardDeviation(logits: ArrayLike<number>): number {
  let sum = 0;
  let count = 0;
  for (let at = 0; at < logits.length; at++) {
    if (logits[at] === -Infinity) continue;
    sum += logits[at] as number;
    count++;
  }
  const mean = sum / count;
  let squares = 0;
  for (let at = 0; at < logits.length; at++) {
    const distance = (logits[at] as number) - mean;
    if (distance !== -Infinity) squares += distance * distance;
  }
  return Math.sqrt(squares / count);
}

/** As in llama.cpp: between the lowest and the highest temperature, by the entropy's share of the most that it could be. */
export function dynamicTemperature(
  { total, moment, count }: WeightSums,
  { temperature, dynatempRange, dynatempExponent }: SamplingParameters,
  vocabSize: number,
): number {
  if (count < 2) return temperature;
  const lowest = Math.max(0, temperature - dynatempRange);
  const highest = temperature + dynatempRange;
  // The mean surprise: log2 of a probability is `scaled` and the bits of a unit less log2 of the total.
  const entropy = binaryLogarithm(total) - unitBitsFor(vocabSize) - moment / total;
  const share = Math.min(1, Math.max(0, entropy / binaryLogarithm(count)));
  return lowest + (highest - lowest) * power(share, dynatempExponent);
}

function power(base: number, exponent: number): number {
  if (exponent === 0) return 1;
  return base === 0 ? 0 : powerOfTwo(exponent * binaryLogarithm(base));
}
