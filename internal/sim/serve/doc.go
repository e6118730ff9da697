// Package serve is the HTTP face of the simulated fleet: an OpenAI-compatible
// endpoint that looks to a client as Dynamo's frontend does, and the pages that
// stand behind a frontend, one set a worker.
//
// The way of a completion request: parse (ask.go) reads the body and refuses
// what Dynamo would refuse; the plan of its answer (plan.go) is made, which is
// the whole text and where it ends, since the text follows from the prompt
// (words.go); the fleet is handed a stream and tells an inbox (inbox.go) what
// becomes of it, never waiting for the client; the handler (completion.go)
// writes that down in Dynamo's wire format (wire.go).
//
// Where Dynamo and OpenAI differ, this is Dynamo, since a client has to get
// along with the real one:
//
//   - An error in mid-stream is an event {"error":…} in a 200, then [DONE].
//   - While there is no worker, the completion endpoints answer 404 with an
//     empty body.
//   - One choice is given whatever n says.
//
// And where the simulation differs from Dynamo: an error answer has OpenAI's
// {"error":{…}} within Dynamo's flat {"message","type","code"}, so that the
// official clients, which look there, find the reason; a request without
// max_tokens is served to its natural length; a list of prompts is one prompt;
// and a stop string is heeded before min_tokens is reached.
package serve
