// Encoders from files to final states, against results of HF transformers.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { encoderModels, stateDifference } from '../support/encoder-models.ts';
import { asFolder } from '../support/formula-model.ts';

const TOLERANCE = 2e-5;

describe.each(Object.entries(encoderModels))('the encoder %s', (_, model) => {
  it.each([
    ['as people write its configuration', model.config],
    ['as transformers saves it', model.saved],
  ])('gives the states of HF transformers, %s', async (_, config) => {
    const difference = await stateDifference(createReferenceBackend, model, asFolder(model, config));
    expect(difference).toBeLessThan(TOLERANCE);
  });
});
