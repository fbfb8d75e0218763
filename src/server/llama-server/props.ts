// GET /props: what a client of llama-server asks first: the context's size, the defaults of sampling, the chat template.

import { basename } from 'node:path';
import { roomOf } from '../../generation/context-room.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { samplingDefaults, samplingOf, withDefaults } from '../openai/schemas/sampling.ts';
import type { Caller } from '../request/auth.ts';
import { generationSettings } from './generation-settings.ts';
import { slotCount } from './slots.ts';

/** llama.cpp's number for "another one each time". */
const RANDOM_SEED = 0xffff_ffff;

export function propsOf(
  context: ServerContext,
  model: ServedModel,
  { admin }: Pick<Caller, 'admin'>,
): object {
  const { name, path, template, tokenizer } = model;
  const spelled = (id: number | undefined) => (id === undefined ? '' : (tokenizer.tokenText(id) ?? ''));
  const defaults = withDefaults({}, samplingDefaults(context.settings, model));
  const extras = { logprobs: undefined, maxTokens: undefined };
  const parameters = samplingOf(defaults, extras, model, { ...wireNames, prompt: 'prompt' });
  const settings = generationSettings({
    parameters,
    model,
    stops: [],
    stream: false,
    limit: undefined,
    grammar: '',
    timingsPerToken: false,
  });
  return {
    default_generation_settings: { n_ctx: roomOf(model), params: { ...settings, seed: RANDOM_SEED } },
    total_slots: slotCount(context),
    model_alias: name,
    // Where files lie on this machine is for admins.
    model_path: admin ? path : basename(path),
    modalities: { vision: false, audio: false },
    chat_template: template?.source ?? '',
    bos_token: spelled(tokenizer.bosId),
    eos_token: spelled(tokenizer.eosId),
    build_info: `chairlift ${context.version}`,
    is_sleeping: false,
  };
}
