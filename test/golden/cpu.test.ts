// The cpu backend against results computed by other implementations, to the accuracy of int8 activations.

import { describe } from 'vitest';
import { sharedGoldens } from '../contract/golden-contract.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';

describe.skipIf(!hasTestdata || !hasAddon)(
  'the cpu backend on shared models (skipped where they or the addon are absent)',
  () => sharedGoldens(createOnCpu),
);
