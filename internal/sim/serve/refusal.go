package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// refusal is an error answer.
type refusal struct {
	status  int
	message string
}

// What the frontend says of its own accord.
const (
	saysNotFound   = "Model not found"
	saysFailed     = "Failed to generate completions"
	saysOverloaded = "Service temporarily overloaded"
	saysTooMany    = "Too many requests"
	saysTooLarge   = "Failed to buffer the request body: length limit exceeded"
	saysNoJSON     = "Expected request with Content-Type application/json"
)

// statusOverloaded is Dynamo's own, and in no registry.
const statusOverloaded = 529

// refusalOf words the answer to a request that the fleet did not serve.
func (s *Server) refusalOf(status int) *refusal {
	switch status {
	case http.StatusNotFound:
		return &refusal{status, saysNotFound}
	case http.StatusServiceUnavailable:
		return &refusal{status, "Model `" + s.options.Model + "` is not ready to serve requests yet. " +
			"The deployment may still be starting up or is not fully provisioned. Please retry shortly."}
	case statusOverloaded:
		return &refusal{status, saysOverloaded}
	case http.StatusTooManyRequests:
		return &refusal{status, saysTooMany}
	default:
		return &refusal{status, saysFailed}
	}
}

// kind is the reason phrase, which is what Dynamo gives as an error's type.
func (r *refusal) kind() string {
	if r.status == statusOverloaded {
		return "Overloaded"
	}
	if text := http.StatusText(r.status); text != "" {
		return text
	}
	return "UnknownError"
}

// errorType is what the metrics count it as.
func (r *refusal) errorType() string {
	switch {
	case r.status == http.StatusNotFound:
		return "not_found"
	case r.status == http.StatusTooManyRequests, r.status == statusOverloaded:
		return "overload"
	case r.status == http.StatusServiceUnavailable:
		return "unavailable"
	case r.status == http.StatusNotImplemented:
		return "not_implemented"
	case r.status < 500:
		return "validation"
	default:
		return "internal"
	}
}

// refusalPage is the body of an error answer: Dynamo's, which is flat, and within
// it OpenAI's, which the official clients look for.
type refusalPage struct {
	Message string       `json:"message"`
	Type    string       `json:"type"`
	Code    int          `json:"code"`
	Error   refusalError `json:"error"`
}

type refusalError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (r *refusal) page() refusalPage {
	return refusalPage{r.message, r.kind(), r.status, refusalError{Message: r.message, Type: r.openAIType(), Code: r.status}}
}

// openAIType is what OpenAI calls an error of that status.
func (r *refusal) openAIType() string {
	switch {
	case r.status == http.StatusUnauthorized:
		return "authentication_error"
	case r.status == http.StatusNotFound:
		return "not_found_error"
	case r.status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case r.status < 500:
		return "invalid_request_error"
	}
	return "internal_server_error"
}

func (r *refusal) write(w http.ResponseWriter) { writeChunked(w, r.status, encode(r.page())) }

// refuseEmpty answers as a route does that is not there.
func refuseEmpty(w http.ResponseWriter, status int) {
	w.Header()["Content-Type"] = nil
	w.WriteHeader(status)
	flush(w)
}

func refuseMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	refuseEmpty(w, http.StatusMethodNotAllowed)
}

// writeJSON answers with a page of JSON.
func writeJSON(w http.ResponseWriter, status int, page any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(page)) // nobody is left to tell
}

// writeChunked answers as the completion endpoints do: with JSON, in chunks.
func writeChunked(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
	flush(w) // before the end, so that its length is not known
}

// flush sends what has been written. A client that is gone is noticed by the
// request's context.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// encode is v as JSON, with no more escapes than JSON asks for.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null") // cannot be: strings, numbers and lists of them
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
