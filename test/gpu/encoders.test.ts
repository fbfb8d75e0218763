// Encoders and classifiers on a GPU: the states and scores of HF transformers.

import { expect, it } from 'vitest';
import { classifierGoldens } from '../contract/golden-contract.ts';
import { encoderModels, leastCosine } from '../support/encoder-models.ts';
import { asFolder } from '../support/formula-model.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { thorough } from '../support/thorough.ts';

describeOnFastestGpu('an encoder on a GPU', () => {
  const backends = sharedGpu();

  const models = Object.entries(encoderModels).filter(([name]) => thorough || !name.includes(' with '));

  it.each(models)('gives the states of HF transformers: %s', async (_, model) => {
    expect(await leastCosine(backends.create, model, asFolder(model))).toBeGreaterThan(0.9999);
  });

  classifierGoldens(backends.create);
});
