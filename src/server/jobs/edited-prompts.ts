// The prompts of a request once its model is known: those of its body, or of what its protocol leaves of a conversation.

import type { z } from 'zod';
import { roomOf } from '../../generation/context-room.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import type { SamplingBody } from '../openai/schemas/sampling.ts';
import type { RequestScope } from '../request/request-scope.ts';
import { counterFor } from './count-tokens.ts';
import type { Protocol } from './protocol.ts';

export interface EditedPrompts {
  readonly inputs: readonly PromptInput[];
  readonly edits?: object | undefined;
}

export async function editedPrompts<Schema extends z.ZodObject, Body extends SamplingBody>(
  protocol: Protocol<Schema, Body>,
  given: z.infer<Schema>,
  body: Body,
  scope: RequestScope,
): Promise<EditedPrompts> {
  const { kind } = protocol;
  const room = { count: counterFor(scope, kind), tokens: roomOf(scope.model) };
  const { body: edited, report: edits } = (await protocol.edit?.(given, body, room)) ?? { body };
  return { inputs: kind.prompts(edited, scope.context.settings), edits };
}
