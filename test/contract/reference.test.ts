import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { smallImage } from '../support/seeing-model.ts';
import { cases, thorough } from '../support/thorough.ts';
import { backendContract } from './backend-contract.ts';
import { plainModels, randomEncoders } from './contract-models.ts';
import { onReference } from './running.ts';

backendContract(onReference, {
  decoders: [plainModels(cases(10, 0.2))],
  encoders: [randomEncoders(cases(10, 0.25), ['F32'])],
  tensorTypes: Object.keys(tensorLayouts) as TensorType[],
  // It keeps keys and values in float32, whatever it is asked for.
  kvTypes: ['f16'],
  tokens: 75,
  others: 2,
  otherTokens: 40,
  texts: [70, 3, 130, 33, 1],
  // It reads matrices of every type as floats, and takes a second for each view.
  images: thorough ? {} : { pictureOf: smallImage, types: ['F32'] },
  settings: [{}],
});
