// A config.json as it lies next to safetensors files, completed with its architecture's defaults.

import { type Config, isRecord } from './config.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Around models of several kinds, whose own type counts. */
const wrappers: readonly unknown[] = [
  'idefics3',
  'internvl',
  'lfm2_vl',
  'llava',
  'llava_onevision',
  'mistral3',
  'paligemma',
  'smolvlm',
];

/** What the first LLaVA models leave out of their text models, which are Llama 2 and Mistral 7B. */
const llavaText: Fields = {
  hidden_size: 4096,
  num_hidden_layers: 32,
  num_attention_heads: 32,
};
const llavaFeedForward: Fields = { llama: 11_008, mistral: 14_336 };

const textInside: readonly unknown[] = [
  ...wrappers,
  'gemma3',
  'gemma3n',
  'gemma4',
  'glm4v',
  'llama4',
  'qwen2_5_vl',
  'qwen3_5',
  'qwen3_5_moe',
  'qwen3_vl',
  'qwen3_vl_moe',
];

/** Whether the text model's own fields lie in an object of their own. */
function isTextInside(fields: Fields): boolean {
  return textInside.includes(fields.model_type) && isRecord(fields.text_config);
}

/** Whether the text model is only a part of what the file holds. */
export function holdsMore(fields: Fields): boolean {
  return isTextInside(fields) || isRecord(fields.vision_config);
}

export function huggingFaceConfig(file: string, fields: Fields): Config {
  const text = fields.text_config;
  if (!isTextInside(fields) || !isRecord(text)) return { file, fields, spellings: {} };
  const spellings = Object.fromEntries(Object.keys(text).map((field) => [field, `text_config.${field}`]));
  // Either may say that head and embedding are one; weights are quantized all alike.
  const tied = text.tie_word_embeddings === true || fields.tie_word_embeddings === true;
  const outer = {
    model_type: wrappers.includes(fields.model_type) ? (text.model_type ?? 'mistral') : fields.model_type,
    ...(tied ? { tie_word_embeddings: true } : {}),
    ...(fields.quantization_config === undefined ? {} : { quantization_config: fields.quantization_config }),
  };
  const leftOut: Fields =
    fields.model_type === 'llava'
      ? { ...llavaText, intermediate_size: llavaFeedForward[String(text.model_type)] }
      : fields.model_type === 'paligemma'
        ? { use_bidirectional_attention: true }
        : {};
  return { file, fields: { ...leftOut, ...text, ...outer }, spellings };
}

/** Fields under their usual names, where a file has them under others. */
export function withUsualNames(
  config: Config,
  otherNames: Readonly<Record<string, readonly string[]>>,
): Config {
  const fields: Record<string, unknown> = { ...config.fields };
  const spellings: Record<string, string> = { ...config.spellings };
  for (const [usual, others] of Object.entries(otherNames)) {
    const found = others.find((name) => (config.fields[name] ?? undefined) !== undefined);
    if (found === undefined || (fields[usual] ?? undefined) !== undefined) continue;
    fields[usual] = config.fields[found];
    spellings[usual] = found;
  }
  return { ...config, fields, spellings };
}

/** Without these there is no rotation: null means no more than that the file does not say. */
const neverNone: readonly string[] = ['rope_theta', 'rope_local_base_freq', 'partial_rotary_factor'];

export function withDefaults(config: Config, defaults: Fields): Config {
  // Other fields that a file sets to null stay null: a null window means none.
  const given = Object.entries(config.fields).filter(
    ([field, value]) => value !== undefined && !(value === null && neverNone.includes(field)),
  );
  return { ...config, fields: { ...defaults, ...Object.fromEntries(given) } };
}
