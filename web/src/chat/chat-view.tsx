// The chat: the list of conversations, and the open one.

import { useEffect, useMemo } from 'preact/hooks';
import { generators, imageReaders, type ModelList } from '../access/model-list.ts';
import type { Server } from '../access/server.ts';
import { useValue } from '../observable.ts';
import { usePolled } from '../polled.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { ChatRoom } from './chat-room.ts';
import { plainSettings } from './conversation.ts';
import { ConversationList } from './conversation-list.tsx';
import { ConversationView } from './conversation-view.tsx';

const ASK_EVERY_MS = 5000;

interface ChatViewProps {
  readonly server: Server;
  readonly room: ChatRoom;
  readonly id: string | undefined;
}

export function ChatView({ server, room, id }: ChatViewProps) {
  const { conversations, unkept } = useValue(room);
  const { models, seeing, problem, isMute } = useModels(server);
  const current = room.find(id) ?? conversations[0];
  const currentId = current?.id;
  useEffect(() => {
    // There is always one to write in.
    if (currentId === undefined) room.open([plainSettings]);
  }, [currentId, room]);
  useEffect(() => {
    const [first] = models;
    if (current === undefined || first === undefined || current.lanes.every(({ model }) => model !== ''))
      return;
    room.setLanes(
      current.id,
      current.lanes.map((lane) => (lane.model === '' ? { ...lane, model: first } : lane)),
    );
  }, [models, current, room]);
  return (
    <div class="chat">
      <h1 class="offscreen">Chat</h1>
      <ConversationList room={room} conversations={conversations} current={current} />
      <div class="chat-main">
        {problem !== undefined && (
          <p class="problem" role="alert">
            <SafeText text={problem} />
          </p>
        )}
        {isMute && (
          <p class="notice" role="status">
            No model here writes text: those there are make vectors and scores of texts.
          </p>
        )}
        {unkept && (
          <p class="notice" role="status">
            This browser has no room for this conversation: delete or export others, or what is said here is
            gone with the tab.
          </p>
        )}
        {current && (
          <ConversationView
            key={current.id}
            room={room}
            conversation={current}
            models={models}
            seeing={seeing}
          />
        )}
      </div>
    </div>
  );
}

interface Models {
  readonly models: readonly string[];
  readonly seeing: ReadonlySet<string>;
  readonly problem: string | undefined;
  /** There are models, and none of them writes text. */
  readonly isMute: boolean;
}

function useModels(server: Server): Models {
  const { answer, problem } = usePolled<ModelList>(server, 'v1/models', ASK_EVERY_MS);
  const models = useMemo(() => generators(answer), [answer]);
  const seeing = useMemo(() => imageReaders(answer), [answer]);
  return { models, seeing, problem, isMute: models.length === 0 && (answer?.data.length ?? 0) > 0 };
}
