// A config.json as it lies next to safetensors files, completed with its architecture's defaults.

import { type Config, isRecord } from './config.ts';

type Fields = Readonly<Record<string, unknown>>;

const textInside: readonly unknown[] = [
  'gemma3',
  'gemma3n',
  'gemma4',
  'llama4',
  'mistral3',
  'qwen3_5',
  'qwen3_5_moe',
  'qwen3_vl',
];

/** Whether the text model is only a part of what the file holds. */
export function isTextInside(fields: Fields): boolean {
  return textInside.includes(fields.model_type) && isRecord(fields.text_config);
}

export function huggingFaceConfig(file: string, fields: Fields): Config {
  const text = fields.text_config;
  if (!isTextInside(fields) || !isRecord(text)) return { file, fields, spellings: {} };
  const spellings = Object.fromEntries(Object.keys(text).map((field) => [field, `text_config.${field}`]));
  // Either may say that head and embedding are one; weights are quantized all alike.
  const tied = text.tie_word_embeddings === true || fields.tie_word_embeddings === true;
  const outer = {
    // This wrapper is around models of several generations.
    model_type: fields.model_type === 'mistral3' ? (text.model_type ?? 'mistral') : fields.model_type,
    ...(tied ? { tie_word_embeddings: true } : {}),
    ...(fields.quantization_config === undefined ? {} : { quantization_config: fields.quantization_config }),
  };
  return { file, fields: { ...text, ...outer }, spellings };
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
