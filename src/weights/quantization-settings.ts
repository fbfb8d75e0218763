// What config.json says of a quantized model, and how it is refused where it asks for something that cannot be served.

import { ModelFileError, printable } from './model-file-error.ts';

export const SETTINGS = 'quantization_config';

/** A value as the file spells it. */
export function shown(value: unknown): string {
  return value === undefined ? 'no value' : printable(JSON.stringify(value));
}

export function refuseSetting(
  file: string,
  field: string,
  problem: string,
  remedy = 'Use the unquantized model, one quantized in a way that docs/models.md lists, or a GGUF.',
): ModelFileError {
  return new ModelFileError({ file, field: `${SETTINGS}.${field}`, problem, remedy });
}

/** Throws where the setting is none of these; `undefined` among them lets it be absent. */
export function requireSetting(
  settings: Readonly<Record<string, unknown>>,
  field: string,
  known: readonly unknown[],
  configPath: string,
): void {
  if (known.includes(settings[field])) return;
  throw refuseSetting(configPath, field, `${shown(settings[field])} is not supported`);
}
