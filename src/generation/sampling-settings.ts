// How an answer is sampled: what was asked for, checked; and where no seed was named, one that nobody has had before.

import { randomBytes } from 'node:crypto';
import { type SamplingParameters, type SamplingRequest, validateSampling } from '../sampling/parameters.ts';
import { type Seed, seedFrom } from '../sampling/random.ts';
import { invalid } from './generation-error.ts';
import type { ParameterNames } from './parameter-names.ts';

export function samplingSettings(
  request: SamplingRequest,
  vocabSize: number,
  names: ParameterNames,
): SamplingParameters {
  const result = validateSampling(request, { vocabSize, freshSeed: freshSeed() });
  if (result.ok) return result.parameters;
  throw invalid(names[result.parameter], result.problem);
}

function freshSeed(): Seed {
  return seedFrom(randomBytes(8).readBigUInt64LE());
}
