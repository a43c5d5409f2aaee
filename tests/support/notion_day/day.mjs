// One scripted day with @notionhq/client, whatever its version: node day.mjs CLIENT_MODULE API_VERSION ROOT_PAGE
// Prints one JSON line for each call: its name, the fields that were compared, and the answer itself.
import { createRequire } from "node:module"

const [, , folder, version, root] = process.argv
const { Client, isNotionClientError } = createRequire(`${folder}/`)("@notionhq/client")
const notion = new Client({
  auth: process.env.NOTION_TOKEN,
  baseUrl: process.env.NOTION_API_BASE_URL,
  notionVersion: version,
  logLevel: "error",
  retry: false,
})
const sources = version >= "2025-09-03"

async function call(name, type, act) {
  let answer
  try {
    answer = await act()
  } catch (error) {
    if (!isNotionClientError(error)) throw error
    console.log(JSON.stringify({ call: name, error: error.code, status: error.status }))
    return undefined
  }
  console.log(JSON.stringify({ call: name, type, answer }))
  return answer
}
const text = (content) => [{ type: "text", text: { content } }]
const request = (method, path, body) => notion.request({ method, path, body })

await call("users.me", "GetSelfResponse", () => notion.users.me({}))
const properties = {
  Name: { title: {} }, Notes: { rich_text: {} }, Points: { number: {} }, Stage: { select: { options: [{ name: "To do" }] } },
  Tags: { multi_select: {} }, Due: { date: {} }, Done: { checkbox: {} }, Link: { url: {} }, Mail: { email: {} },
  Phone: { phone_number: {} }, Files: { files: {} }, People: { people: {} },
}
const parent = { type: "page_id", page_id: root }
const made = await call("databases.create", "CreateDatabaseResponse", () =>
  request("post", "databases", {
    parent, title: text("Tasks"), icon: { type: "emoji", emoji: "🥬" },
    ...(sources ? { initial_data_source: { properties } } : { properties }),
  }))
const source = sources ? made.data_sources[0].id : made.id
const table = sources ? { type: "data_source_id", data_source_id: source } : { type: "database_id", database_id: source }
await call("databases.retrieve", "GetDatabaseResponse", () => notion.databases.retrieve({ database_id: made.id }))
if (sources) await call("dataSources.retrieve", "GetDataSourceResponse", () => request("get", `data_sources/${source}`))
const me = await notion.users.me({})
const page = await call("pages.create", "CreatePageResponse", () =>
  notion.pages.create({
    parent: table,
    icon: { type: "emoji", emoji: "🧹" },
    cover: { type: "external", external: { url: "https://example.org/cover.png" } },
    properties: {
      Name: { title: text("Sweep") },
      Notes: { rich_text: [...text("ask "), { type: "mention", mention: { type: "user", user: { id: me.id } } }] },
      Points: { number: 3 }, Stage: { select: { name: "To do" } }, Tags: { multi_select: [{ name: "a" }, { name: "b" }] },
      Due: { date: { start: new Date(Date.now() + 86400000).toISOString().slice(0, 10) } }, Done: { checkbox: false },
      Link: { url: "https://example.org" }, Mail: { email: "a@example.org" }, Phone: { phone_number: "1" },
      Files: { files: [{ name: "plan", type: "external", external: { url: "https://example.org/plan.pdf" } }] },
    },
  }))
await call("pages.retrieve", "GetPageResponse", () => notion.pages.retrieve({ page_id: page.id }))
await call("pages.update", "UpdatePageResponse", () =>
  notion.pages.update({ page_id: page.id, icon: null, properties: { Points: { number: 5 }, Done: { checkbox: true } } }))
await call("pages.properties.retrieve", "GetPagePropertyResponse", () =>
  notion.pages.properties.retrieve({ page_id: page.id, property_id: page.properties.Notes.id }))
for (const number of [1, 2]) {
  await notion.pages.create({ parent: table, properties: { Name: { title: text(`More ${number}`) } } })
}
const where = sources ? `data_sources/${source}/query` : `databases/${source}/query`
const listing = sources ? "QueryDataSourceResponse" : "QueryDatabaseResponse"
const first = await call("query, a page of two", listing, () => request("post", where, { page_size: 2 }))
await call("query, the rest", listing, () => request("post", where, { page_size: 2, start_cursor: first.next_cursor }))
await call("query, by filter and order", listing, () =>
  request("post", where, {
    filter: { and: [{ property: "Points", number: { equals: 5 } }, { property: "Tags", multi_select: { contains: "b" } }] },
    sorts: [{ property: "Name", direction: "ascending" }],
  }))
await call("query, by a relative date", listing, () =>
  request("post", where, { filter: { property: "Due", date: { on_or_after: "today" } } }))
const below = await call("pages.create, below a page", "CreatePageResponse", () =>
  notion.pages.create({ parent, properties: { title: { title: text("Minutes") } } }))
const deeper = await notion.pages.create({ parent: { type: "page_id", page_id: below.id }, properties: { title: { title: text("Annex") } } })
if (sources) await call("pages.move", "MovePageResponse", () => request("post", `pages/${deeper.id}/move`, { parent }))
const blocks = await call("blocks.children.append", "AppendBlockChildrenResponse", () =>
  notion.blocks.children.append({
    block_id: page.id,
    children: [
      { type: "paragraph", paragraph: { rich_text: text("hello") } },
      { type: "to_do", to_do: { rich_text: text("broom"), checked: false } },
    ],
  }))
await call("blocks.children.list", "ListBlockChildrenResponse", () => notion.blocks.children.list({ block_id: page.id }))
await call("blocks.update", "UpdateBlockResponse", () =>
  notion.blocks.update({ block_id: blocks.results[1].id, to_do: { checked: true } }))
await call("blocks.retrieve", "GetBlockResponse", () => notion.blocks.retrieve({ block_id: blocks.results[1].id }))
await call("blocks.delete", "DeleteBlockResponse", () => notion.blocks.delete({ block_id: blocks.results[0].id }))
await call("blocks.children.list, after a deletion", "ListBlockChildrenResponse", () =>
  notion.blocks.children.list({ block_id: page.id }))
await call("comments.create", "CreateCommentResponse", () =>
  notion.comments.create({ parent: { page_id: page.id }, rich_text: text("nearly done") }))
await call("comments.list", "ListCommentsResponse", () => notion.comments.list({ block_id: page.id }))
await call("search", "SearchResponse", () => notion.search({ query: "Sweep" }))
await call("users.list", "ListUsersResponse", () => notion.users.list({}))
await call("pages.update, into the trash", "UpdatePageResponse", () =>
  notion.pages.update({ page_id: page.id, [version >= "2026-03-11" ? "in_trash" : "archived"]: true }))
await call("query, without the trash", listing, () => request("post", where, {}))
const nowhere = "00000000-0000-4000-8000-000000000000"
await call("pages.create, unknown parent", "", () =>
  notion.pages.create({ parent: { page_id: nowhere }, properties: { title: { title: text("x") } } }))
await call("databases.create, unknown parent", "", () =>
  request("post", "databases", { parent: { type: "page_id", page_id: nowhere }, ...(sources ? { initial_data_source: { properties } } : { properties }) }))
await call("pages.create, null parent", "", () => request("post", "pages", { parent: null, properties: {} }))
await call("databases.create, null parent", "", () => request("post", "databases", { parent: null, properties }))
await call("pages.create, with children", "CreatePageResponse", () =>
  notion.pages.create({ parent, properties: { title: { title: text("x") } }, children: [{ type: "divider", divider: {} }] }))
await call("pages.create, with a block that is not emulated", "", () =>
  notion.pages.create({ parent, properties: { title: { title: text("x") } }, children: [{ type: "breadcrumb", breadcrumb: {} }] }))
await call("pages.retrieve, unknown", "", () => notion.pages.retrieve({ page_id: nowhere }))
