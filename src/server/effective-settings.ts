// The settings that count, as admins read them; `src/app/` makes them.

export interface EffectiveSetting {
  readonly name: string;
  /** The heading that it stands under in the help. */
  readonly group: string;
  readonly flag: string;
  readonly variable: string;
  readonly meaning: string;
  readonly choices?: readonly string[];
  /** As it may be given, like the value. */
  readonly default?: string;
  /** Absent where it is unset. */
  readonly value?: string;
  /** `chosen here`: nobody has given it, and this is what the machine comes to. */
  readonly source: 'flag' | 'environment' | 'file' | 'default' | 'chosen here';
  /** The value is hidden. */
  readonly secret?: true;
}

export interface EffectiveSettings {
  /** The config file, where there is one. */
  readonly file?: string;
  readonly settings: readonly EffectiveSetting[];
}
