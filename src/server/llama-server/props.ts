// GET /props: what a client of llama-server asks first: the context's size, the defaults of sampling, the chat template. Programs ask
// again and again, so that a look neither loads a model that was described before nor counts as its use.

import { basename } from 'node:path';
import { roomOf } from '../../generation/context-room.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { samplingDefaults, samplingOf, withDefaults } from '../openai/schemas/sampling.ts';
import type { Caller } from '../request/auth.ts';
import { slotCount } from '../request/slot-number.ts';
import { generationSettings } from './generation-settings.ts';

/** llama.cpp's number for "another one each time". */
const RANDOM_SEED = 0xffff_ffff;

interface ModelProps {
  readonly default_generation_settings: { readonly n_ctx: number; readonly params: object };
  readonly model_path: string;
}

/** What was said of models, for the time when they are unloaded. */
export class KnownProps {
  readonly #context: ServerContext;
  readonly #byFile = new Map<string, ModelProps>();

  constructor(context: ServerContext) {
    this.#context = context;
  }

  /** Undefined where the model is not loaded and was not described before. */
  find(entry: ModelEntry): ModelProps | undefined {
    const model = loadedModel(this.#context.pool, entry);
    return model === undefined ? this.#byFile.get(keyOf(entry)) : this.add(entry, model);
  }

  add(entry: ModelEntry, model: ServedModel): ModelProps {
    const props = propsOf(this.#context, model);
    this.#byFile.set(keyOf(entry), props);
    return props;
  }
}

/** A file that was changed is another model. */
function keyOf({ name, createdSeconds }: ModelEntry): string {
  return `${createdSeconds} ${name}`;
}

export function loadedModel(
  pool: ModelPool,
  { name, adapterOf = name }: ModelEntry,
): ServedModel | undefined {
  return pool.loaded().find((one) => one.name === adapterOf);
}

/** `entry` as it is now. */
export function shownProps(props: ModelProps, entry: ModelEntry, { admin }: Pick<Caller, 'admin'>): object {
  return {
    ...props,
    model_alias: entry.name,
    // Where files lie on this machine is for admins.
    model_path: admin ? props.model_path : basename(props.model_path),
    is_sleeping: entry.state !== 'loaded',
  };
}

function propsOf(context: ServerContext, model: ServedModel): ModelProps {
  const { path, template, tokenizer } = model;
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
  const shown = {
    total_slots: slotCount(context),
    modalities: { vision: model.spec.vision !== undefined, audio: false },
    chat_template: template?.source ?? '',
    bos_token: spelled(tokenizer.bosId),
    eos_token: spelled(tokenizer.eosId),
    build_info: `chairlift ${context.version}`,
  };
  return {
    default_generation_settings: { n_ctx: roomOf(model), params: { ...settings, seed: RANDOM_SEED } },
    model_path: path,
    ...shown,
  };
}
