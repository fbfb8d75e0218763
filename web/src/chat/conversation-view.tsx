// One conversation: its lanes, its turns, and the composer.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ChatRoom } from './chat-room.ts';
import { Composer } from './composer.tsx';
import {
  branchesOf,
  type Conversation,
  type LaneSettings,
  shownTurns,
  type Turn,
  userSaid,
} from './conversation.ts';
import { LaneSettingsForm } from './lane-settings-form.tsx';
import { imageIds } from './pictures.ts';
import { TurnView } from './turn-view.tsx';

interface ConversationViewProps {
  readonly room: ChatRoom;
  readonly conversation: Conversation;
  readonly models: readonly string[];
  /** Those that read images. */
  readonly seeing: ReadonlySet<string>;
}

const NEAR_END_PIXELS = 80;

export function ConversationView({ room, conversation, models, seeing }: ConversationViewProps) {
  const { id, lanes } = conversation;
  const turns = shownTurns(conversation);
  const [settingsOpen, setSettingsOpen] = useState(false);
  const [editedId, setEditedId] = useState<string>();
  const answering = room.isAnswering(id);
  const scroll = useFollowing(turns);
  useEscape(answering, () => room.stop(id));
  const setLane = (at: number, settings: LaneSettings) =>
    room.setLanes(
      id,
      lanes.map((lane, other) => (other === at ? settings : lane)),
    );
  const compare = () => room.setLanes(id, lanes.length === 1 ? [...lanes, ...lanes] : lanes.slice(0, 1));
  return (
    <section class="conversation" aria-label="Conversation">
      <div class="lane-bar">
        {lanes.map((lane, at) => (
          <LaneHead
            key={at}
            name={laneName(at, lanes.length)}
            settings={lane}
            models={models}
            onChange={(settings) => setLane(at, settings)}
          />
        ))}
        <div class="row">
          <button
            type="button"
            class="small"
            aria-expanded={settingsOpen}
            onClick={() => setSettingsOpen(!settingsOpen)}
          >
            Settings
          </button>
          <button type="button" class="small" aria-pressed={lanes.length > 1} onClick={compare}>
            Side by side
          </button>
        </div>
      </div>
      {settingsOpen && (
        <div class="lanes" data-lanes={lanes.length}>
          {lanes.map((lane, at) => (
            <LaneSettingsForm
              key={at}
              name={laneName(at, lanes.length)}
              settings={lane}
              onChange={(settings) => setLane(at, settings)}
            />
          ))}
        </div>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <div class="turns" ref={scroll} tabIndex={0} role="log" aria-label="Messages" aria-live="off">
        <div>
          {turns.length === 0 && <p class="empty">Ask something.</p>}
          {turns.map((turn) => (
            <TurnView
              key={turn.id}
              room={room}
              conversationId={id}
              turn={turn}
              branches={branchesOf(conversation, turn)}
              lanes={lanes.length}
              editing={turn.id === editedId}
              onEditing={setEditedId}
            />
          ))}
        </div>
      </div>
      <p class="offscreen" role="status">
        {answering ? 'The answer is being written' : outcomeOf(turns.at(-1))}
      </p>
      <Composer
        askable={lanes.every(({ model }) => model !== '')}
        answering={answering}
        pictured={imageIds(turns).length > 0}
        blindness={blindnessOf(lanes, seeing)}
        onSay={(text, attached) => {
          // Settings make room for the answer.
          setSettingsOpen(false);
          room.say(id, userSaid(text, attached));
        }}
        onStop={() => room.stop(id)}
        onEditLast={() => setEditedId(turns.findLast(({ said }) => said.by === 'user')?.id)}
      />
    </section>
  );
}

/** Why images cannot be attached; undefined where they can. */
function blindnessOf(lanes: readonly LaneSettings[], seeing: ReadonlySet<string>): string | undefined {
  const blind = lanes.find(({ model }) => !seeing.has(model));
  if (blind === undefined) return undefined;
  const instead = seeing.size === 0 ? 'No model here does.' : `These do: ${[...seeing].join(', ')}.`;
  return `${blind.model} does not read images. ${instead}`;
}

function laneName(at: number, lanes: number): string {
  return lanes === 1 ? 'Model' : `Model ${'AB'[at]}`;
}

interface LaneHeadProps {
  readonly name: string;
  readonly settings: LaneSettings;
  readonly models: readonly string[];
  readonly onChange: (settings: LaneSettings) => void;
}

function LaneHead({ name, settings, models, onChange }: LaneHeadProps) {
  const known =
    models.includes(settings.model) || settings.model === '' ? models : [settings.model, ...models];
  return (
    <label class="lane-head">
      <span>{name}</span>
      <select
        value={settings.model}
        onChange={(event) => onChange({ ...settings, model: event.currentTarget.value })}
      >
        {known.map((model) => (
          <option key={model} value={model}>
            {model}
          </option>
        ))}
      </select>
    </label>
  );
}

function outcomeOf(turn: Turn | undefined): string {
  if (turn === undefined) return '';
  const states = turn.answers.map((answer) => answer?.state);
  if (states.includes('failed')) return 'The answer has failed';
  if (states.includes('waiting')) return 'The server is away';
  return states.includes('stopped') ? 'The answer was stopped' : 'The answer is complete';
}

/** Escape stops the answers, unless it closes something that is open. */
function useEscape(isActive: boolean, onEscape: () => void): void {
  const latest = useRef(onEscape);
  latest.current = onEscape;
  useEffect(() => {
    if (!isActive) return;
    const hear = (event: KeyboardEvent) => {
      if (
        event.key === 'Escape' &&
        !event.defaultPrevented &&
        !document.querySelector('dialog[open], :popover-open')
      )
        latest.current();
    };
    addEventListener('keydown', hear);
    return () => removeEventListener('keydown', hear);
  }, [isActive]);
}

/**
 * Scrolls to the end as an answer grows, not while the reader has scrolled up, and again with the next message.
 */
function useFollowing(turns: readonly Turn[]) {
  const element = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const lastTurnId = turns.at(-1)?.id;
  useEffect(() => {
    const box = element.current;
    if (box === null) return;
    let top = box.scrollTop;
    const toEnd = () => {
      if (following.current) box.scrollTop = box.scrollHeight;
      top = box.scrollTop;
    };
    const onScroll = () => {
      const isNearEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PIXELS;
      // The end is also far where the answer has grown since: only scrolling up means reading elsewhere.
      if (isNearEnd || box.scrollTop < top) following.current = isNearEnd;
      top = box.scrollTop;
    };
    box.addEventListener('scroll', onScroll, { passive: true });
    // Answers grow, turns get their height once laid out, and a phone's keyboard shrinks the box.
    const resizes = new ResizeObserver(toEnd);
    for (const part of [box, ...box.children]) resizes.observe(part);
    return () => {
      resizes.disconnect();
      box.removeEventListener('scroll', onScroll);
    };
  }, []);
  useLayoutEffect(() => {
    const box = element.current;
    if (box === null || lastTurnId === undefined) return;
    following.current = true;
    box.scrollTop = box.scrollHeight;
  }, [lastTurnId]);
  return element;
}
