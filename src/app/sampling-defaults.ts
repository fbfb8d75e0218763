// Default sampling parameters of the configuration, such as `temperature=0.7 top_p=0.9`.

import { ConfigError } from '../config.ts';
import { wireNames } from '../generation/sampling-settings.ts';
import { defaultableNames, type SamplingDefaults, validateSampling } from '../sampling/parameters.ts';

const flag = '--sampling-defaults';

export function readSamplingDefaults(items: readonly string[]): SamplingDefaults {
  const defaults: Record<string, number> = {};
  for (const item of items) {
    const [wire = '', text = ''] = item.split(/=(.*)/s);
    const name = defaultableNames.find((one) => wireNames[one] === wire.trim());
    if (name === undefined) {
      const known = defaultableNames.map((one) => wireNames[one]).join(', ');
      throw new ConfigError(`${flag}: give name=value, where the name is one of ${known}; not ${item}`);
    }
    const value = text.trim() === '' ? Number.NaN : Number(text);
    const checked = validateSampling({ [name]: value }, { vocabSize: 1, freshSeed: { low: 0, high: 0 } });
    if (!checked.ok) throw new ConfigError(`${flag}: ${wire}: ${checked.problem}`);
    defaults[name] = value;
  }
  return defaults;
}
