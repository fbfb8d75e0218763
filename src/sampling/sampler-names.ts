// The stages of sampling that have a name, and the orders they may come in. Names and letters are llama.cpp's.

export const samplerNames = [
  'penalties',
  'dry',
  'top_n_sigma',
  'top_k',
  'typ_p',
  'top_p',
  'min_p',
  'xtc',
  'temperature',
] as const;

export type SamplerName = (typeof samplerNames)[number];

/** Temperature before the filters is what OpenAI, Hugging Face and vLLM mean by top_p. */
export const temperatureFirst: readonly SamplerName[] = [
  'penalties',
  'dry',
  'temperature',
  'top_n_sigma',
  'top_k',
  'typ_p',
  'top_p',
  'min_p',
  'xtc',
];

/** llama.cpp's order, in which dynamic temperature measures the entropy of what the filters have left. */
export const temperatureLast: readonly SamplerName[] = samplerNames;

const letters: Readonly<Record<string, SamplerName>> = {
  e: 'penalties',
  d: 'dry',
  s: 'top_n_sigma',
  k: 'top_k',
  y: 'typ_p',
  p: 'top_p',
  m: 'min_p',
  x: 'xtc',
  t: 'temperature',
};

const otherNames: Readonly<Record<string, SamplerName>> = {
  'top-n-sigma': 'top_n_sigma',
  'top-k': 'top_k',
  typical: 'typ_p',
  typical_p: 'typ_p',
  'typical-p': 'typ_p',
  'typ-p': 'typ_p',
  typ: 'typ_p',
  'top-p': 'top_p',
  nucleus: 'top_p',
  'min-p': 'min_p',
  temp: 'temperature',
};

/** A list of names, or their letters in one word. An unknown one stays as it is. */
export function readSamplers(given: string | readonly string[]): readonly string[] {
  if (typeof given === 'string') return Array.from(given, (letter) => letters[letter] ?? letter);
  return given.map((name) => (Object.hasOwn(otherNames, name) ? (otherNames[name] as string) : name));
}

export function isSamplerName(name: string): name is SamplerName {
  return samplerNames.some((known) => known === name);
}
