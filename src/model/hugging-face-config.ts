// A config.json as it lies beside safetensors files, completed with its architecture's defaults.

import { type Config, isRecord } from './config.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Multimodal wrappers whose text model is run alone. */
const textInside: readonly unknown[] = ['gemma3'];

export function huggingFaceConfig(file: string, fields: Fields): Config {
  const text = fields.text_config;
  if (!textInside.includes(fields.model_type) || !isRecord(text)) return { file, fields, spellings: {} };
  const spellings = Object.fromEntries(Object.keys(text).map((field) => [field, `text_config.${field}`]));
  return { file, fields: { ...text, model_type: fields.model_type }, spellings };
}

export function withDefaults(config: Config, defaults: Fields): Config {
  // Fields that a file sets to null stay null: a null window means none.
  const given = Object.entries(config.fields).filter(([, value]) => value !== undefined);
  return { ...config, fields: { ...defaults, ...Object.fromEntries(given) } };
}
