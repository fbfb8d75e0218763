// A message, or results of tools, and the answer of each lane.

import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import { CopyButton } from '../text/code-block.tsx';
import { LongText } from '../text/safe-text.tsx';
import { AnswerView } from './answer-view.tsx';
import type { ChatRoom } from './chat-room.ts';
import type { Said, Turn } from './conversation.ts';

interface TurnViewProps {
  readonly room: ChatRoom;
  readonly conversationId: string;
  readonly turn: Turn;
  readonly lanes: number;
}

/** Rendered again only where it changed: turns may be long. */
export const TurnView = memo(({ room, conversationId, turn, lanes }: TurnViewProps) => {
  const shown = Array.from({ length: lanes }, (_, lane) => turn.answers[lane] ?? null);
  return (
    <article class="turn">
      <SaidView said={turn.said} onEdit={(text) => room.edit(conversationId, turn.id, text)} />
      <div class="lanes" data-lanes={lanes}>
        {shown.map((answer, lane) => (
          <div class="lane" key={lane}>
            {answer && (
              <AnswerView
                answer={answer}
                name={lanes === 1 ? 'Answer' : `Answer ${'AB'[lane]}`}
                compared={lanes > 1}
                onRetry={() => room.retry(conversationId, turn.id, lane)}
                onResults={(results) => room.say(conversationId, { by: 'tools', lane, results })}
              />
            )}
          </div>
        ))}
      </div>
    </article>
  );
});

function SaidView({ said, onEdit }: { readonly said: Said; readonly onEdit: (text: string) => void }) {
  const [draft, setDraft] = useState<string>();
  if (said.by === 'tools') {
    return (
      <div class="said said-tools">
        <h3>Tools</h3>
        {said.results.map(({ callId, text }) => (
          <pre key={callId}>
            <LongText text={text} />
          </pre>
        ))}
      </div>
    );
  }
  if (draft !== undefined) {
    return (
      <form
        class="said editing"
        onSubmit={(event) => {
          event.preventDefault();
          if (draft.trim() === '') return;
          setDraft(undefined);
          onEdit(draft);
        }}
      >
        <textarea
          aria-label="Your message"
          rows={3}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
        />
        <div class="row">
          <button type="submit" class="small primary">
            Say this instead
          </button>
          <button type="button" class="small" onClick={() => setDraft(undefined)}>
            Leave it
          </button>
        </div>
      </form>
    );
  }
  return (
    <div class="said">
      <h3 class="offscreen">You</h3>
      <p class="said-text">
        <LongText text={said.text} />
      </p>
      <div class="row tools">
        <button type="button" class="small ghost" onClick={() => setDraft(said.text)}>
          Edit
        </button>
        <CopyButton text={() => said.text} />
      </div>
    </div>
  );
}
