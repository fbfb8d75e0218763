// The body of /infill, as llama.cpp's clients send it: editors that complete code.

import { z } from 'zod';
import type { BodyRules } from '../../http/parse-body.ts';
import { samplingFields, sharedNoOps, sharedRefusals } from './sampling.ts';

export const infillSchema = z.object({
  input_prefix: z.string().meta({ description: 'What stands before the gap. Default empty.' }).optional(),
  input_suffix: z.string().meta({ description: 'What stands behind it. Default empty.' }).optional(),
  input_extra: z
    .array(z.looseObject({ filename: z.string().optional(), text: z.string() }))
    .meta({ description: 'Other files that may help.' })
    .optional(),
  prompt: z.string().meta({ description: 'How the answer begins already. Default empty.' }).optional(),
  ...samplingFields,
  n_predict: z
    .int()
    .meta({ minimum: -1, description: 'The same as max_tokens; -1 sets no limit. Default -1.' })
    .optional(),
});

export type InfillBody = z.infer<typeof infillSchema>;

export const infillRules: BodyRules<typeof infillSchema> = {
  schema: infillSchema,
  // How llama.cpp's own clients steer it: nothing here changes what is answered.
  noOps: [
    ...sharedNoOps,
    'cache_prompt',
    'id_slot',
    'n_indent',
    'samplers',
    't_max_predict_ms',
    't_max_prompt_ms',
  ],
  refused: {
    ...sharedRefusals,
    n: (value) => (value === 1 ? undefined : 'there is one answer'),
  },
};

export function infillMaxTokens({ max_tokens, n_predict }: InfillBody): number | undefined {
  return max_tokens ?? (n_predict === -1 ? undefined : n_predict);
}
