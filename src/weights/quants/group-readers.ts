// Which reader each block format has.

import { eachMlxType, type TensorType } from '../tensor-type.ts';
import type { GroupReader } from './group.ts';
import { readIQ1_M, readIQ1_S } from './iq1.ts';
import { readIQ2_S, readIQ2_XS, readIQ2_XXS } from './iq2.ts';
import { readIQ3_S, readIQ3_XXS } from './iq3.ts';
import { readIQ4_NL, readIQ4_XS } from './iq4.ts';
import { readQ2_K, readQ3_K, readQ4_K, readQ5_K, readQ6_K } from './k-quants.ts';
import { readQ4_0, readQ4_1, readQ5_0, readQ5_1, readQ8_0 } from './legacy-blocks.ts';
import { mlxReader } from './mlx-groups.ts';
import { readMXFP4, readNVFP4 } from './mxfp4.ts';
import { readTQ1_0, readTQ2_0 } from './ternary.ts';

export type QuantType = Exclude<TensorType, 'F32' | 'F16' | 'BF16' | 'F8_G32' | 'F8_G128'>;

export const groupReaders: Readonly<Record<QuantType, GroupReader>> = {
  Q8_0: readQ8_0,
  Q4_0: readQ4_0,
  Q4_1: readQ4_1,
  Q5_0: readQ5_0,
  Q5_1: readQ5_1,
  Q2_K: readQ2_K,
  Q3_K: readQ3_K,
  Q4_K: readQ4_K,
  Q5_K: readQ5_K,
  Q6_K: readQ6_K,
  IQ1_S: readIQ1_S,
  IQ1_M: readIQ1_M,
  IQ2_XXS: readIQ2_XXS,
  IQ2_XS: readIQ2_XS,
  IQ2_S: readIQ2_S,
  IQ3_XXS: readIQ3_XXS,
  IQ3_S: readIQ3_S,
  IQ4_NL: readIQ4_NL,
  IQ4_XS: readIQ4_XS,
  TQ1_0: readTQ1_0,
  TQ2_0: readTQ2_0,
  MXFP4: readMXFP4,
  NVFP4: readNVFP4,
  ...eachMlxType(mlxReader),
};
