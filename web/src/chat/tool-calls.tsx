// The model's tool calls. The page calls nothing: the reader types what the tools returned.

import { useId, useState } from 'preact/hooks';
import { LongText, SafeText } from '../text/safe-text.tsx';
import type { ToolCall, ToolResult } from './conversation.ts';

interface ToolCallsProps {
  readonly calls: readonly ToolCall[];
  readonly onResults: ((results: readonly ToolResult[]) => void) | undefined;
}

export function ToolCalls({ calls, onResults }: ToolCallsProps) {
  const [texts, setTexts] = useState<readonly string[]>([]);
  const id = useId();
  const submit = (event: Event) => {
    event.preventDefault();
    onResults?.(calls.map((call, at) => ({ callId: call.id, text: texts[at] ?? '' })));
  };
  return (
    <form class="calls" onSubmit={submit}>
      {calls.map((call, at) => (
        <div class="call" key={call.id || at}>
          <h4>
            calls <SafeText text={call.name} most={100} />
          </h4>
          <pre>
            <LongText text={indented(call.arguments)} />
          </pre>
          {onResults && (
            <>
              <label for={`${id}-${at}`}>What it gave back</label>
              <textarea
                id={`${id}-${at}`}
                rows={2}
                value={texts[at] ?? ''}
                onInput={(event) => setTexts(Object.assign([...texts], { [at]: event.currentTarget.value }))}
              />
            </>
          )}
        </div>
      ))}
      {onResults && (
        <button type="submit" class="small">
          Send what they gave back
        </button>
      )}
    </form>
  );
}

/** Arguments are not valid JSON until they are complete. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
