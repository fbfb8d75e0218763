// Vectors of texts against independent implementations: the embedded model by plain PyTorch, others by Hugging Face
// transformers.

import { describe } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { vectorGoldens } from '../contract/golden-contract.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { thorough } from '../support/thorough.ts';

// It takes its time with so large a model.
const mostTokens = thorough ? undefined : 19;

describe('the reference backend', () => vectorGoldens(createReferenceBackend, 0.9999, mostTokens));

// Against quantized weights it computes with activations of int8.
describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () =>
  vectorGoldens(createOnCpu, 0.9998),
);
