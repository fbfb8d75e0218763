// Settings of a lane: the system prompt, sampling, a schema and tools. Empty means the model's default.

import { useId } from 'preact/hooks';
import type { LaneSettings } from './conversation.ts';

type NumberName = {
  [Name in keyof LaneSettings]-?: number extends LaneSettings[Name] ? Name : never;
}[keyof LaneSettings];

interface NumberField {
  readonly name: NumberName;
  readonly label: string;
  readonly min?: number;
  readonly max?: number;
  readonly step: number | 'any';
}

const fields: readonly NumberField[] = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 2, step: 'any' },
  { name: 'topP', label: 'Top p', min: 0, max: 1, step: 'any' },
  { name: 'topK', label: 'Top k', min: 0, step: 1 },
  { name: 'minP', label: 'Min p', min: 0, max: 1, step: 'any' },
  { name: 'maxTokens', label: 'Max tokens', min: 1, step: 1 },
  { name: 'seed', label: 'Seed', step: 1 },
  { name: 'presencePenalty', label: 'Presence penalty', min: -2, max: 2, step: 'any' },
  { name: 'frequencyPenalty', label: 'Frequency penalty', min: -2, max: 2, step: 'any' },
  { name: 'repetitionPenalty', label: 'Repetition penalty', min: 0, step: 'any' },
];

interface LaneSettingsFormProps {
  readonly name: string;
  readonly settings: LaneSettings;
  readonly onChange: (settings: LaneSettings) => void;
}

export function LaneSettingsForm({ name, settings, onChange }: LaneSettingsFormProps) {
  const id = useId();
  return (
    <fieldset class="lane-settings">
      <legend>{name}</legend>
      <label for={`${id}-system`}>System prompt</label>
      <textarea
        id={`${id}-system`}
        rows={2}
        value={settings.system}
        onInput={(event) => onChange({ ...settings, system: event.currentTarget.value })}
      />
      <div class="numbers">
        {fields.map((field) => (
          <NumberInput key={field.name} field={field} settings={settings} onChange={onChange} />
        ))}
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={settings.probabilities}
          onChange={(event) => onChange({ ...settings, probabilities: event.currentTarget.checked })}
        />
        Show how probable each token was
      </label>
      <details>
        <summary>JSON schema</summary>
        <label for={`${id}-schema`}>Answers keep to it</label>
        <textarea
          id={`${id}-schema`}
          rows={4}
          class="mono"
          spellcheck={false}
          value={settings.schema ?? ''}
          onInput={(event) => onChange({ ...settings, schema: event.currentTarget.value })}
        />
      </details>
      <details>
        <summary>Tools</summary>
        <label for={`${id}-tools`}>A list in JSON, as the OpenAI API takes it</label>
        <textarea
          id={`${id}-tools`}
          rows={4}
          class="mono"
          spellcheck={false}
          value={settings.tools}
          onInput={(event) => onChange({ ...settings, tools: event.currentTarget.value })}
        />
      </details>
    </fieldset>
  );
}

function NumberInput({
  field,
  settings,
  onChange,
}: {
  readonly field: NumberField;
  readonly settings: LaneSettings;
  readonly onChange: (settings: LaneSettings) => void;
}) {
  const { name, label, ...range } = field;
  const read = (event: { currentTarget: HTMLInputElement }) => {
    const { [name]: _, ...others } = settings;
    const value = event.currentTarget.valueAsNumber;
    onChange(Number.isFinite(value) ? { ...others, [name]: value } : others);
  };
  return (
    <label>
      <span>{label}</span>
      <input
        type="number"
        inputMode="decimal"
        placeholder="auto"
        {...range}
        value={settings[name] ?? ''}
        onChange={read}
      />
    </label>
  );
}
