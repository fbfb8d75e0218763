// What comes of a generation, piece by piece.

import type { Logprobs } from '../engine/request.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import type { AnswerPiece } from './answer-parts.ts';

/** `index` counts choices over all prompts. */
export type GenerationEvent =
  | ({
      readonly kind: 'piece';
      readonly index: number;
      /** The sampled token; its text may come later, or never where it ends the answer. Absent for trailing text. */
      readonly token?: number;
      readonly logprobs?: Logprobs | undefined;
    } & AnswerPiece)
  | {
      /** Before the first answer to a prompt. */
      readonly kind: 'scores';
      readonly index: number;
      readonly ids: Int32Array;
      /** Of all tokens but the first. */
      readonly scores: readonly Logprobs[];
    }
  | {
      readonly kind: 'finish';
      readonly index: number;
      readonly reason: FinishReason;
      readonly calls: number;
      /** The last call was cut off within its arguments. */
      readonly hasOpenCall?: true;
      readonly stop: string | undefined;
      /** Where the grammar allowed more than is valid: whether the answer is; null where that cannot be said. */
      readonly isValid?: boolean | null;
    };
