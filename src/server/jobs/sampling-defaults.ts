// Sampling parameters where a request gives none: the server's settings, else the model's files.

import { wireNames } from '../../generation/sampling-settings.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { defaultableNames } from '../../sampling/parameters.ts';
import type { ServerSettings } from '../settings.ts';

/** By the names of the API. */
export type WireDefaults = Readonly<Record<string, number>>;

export function samplingDefaults(
  { samplingDefaults: set, useModelSampling }: ServerSettings,
  { sampling = {} }: Pick<ServedModel, 'sampling'>,
): WireDefaults {
  const defaults: Record<string, number> = {};
  for (const name of defaultableNames) {
    const value = set[name] ?? (useModelSampling ? sampling[name] : undefined);
    if (value !== undefined) defaults[wireNames[name]] = value;
  }
  return defaults;
}

/** A request's own values always win. */
export function withDefaults<Body extends object>(body: Body, defaults: WireDefaults): Body {
  return { ...defaults, ...body };
}
