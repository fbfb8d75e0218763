// LAuReL: `x + norm(up(down(x)))`.

import type { LaurelSpec } from '../../../model/spec.ts';
import { applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import type { RunBody } from '../step-context.ts';
import { addInto } from '../vector.ts';

export const runLaurel: RunBody<LaurelSpec> = ({ spec }, { down, up, norm }, input) => {
  const added = applyLinear(up, applyLinear(down, input));
  const output = normalize(added, spec.hiddenSize, norm, spec.normEpsilon);
  addInto(output, input);
  return output;
};
