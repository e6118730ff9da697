package kube

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsNotFound says that what was asked for is not there: the object, or all of its kind.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }

// IsForbidden says that the user may not do it.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) && !IsGone(err) }

// IsUnauthorized says that the server does not accept who asks.
func IsUnauthorized(err error) bool { return apierrors.IsUnauthorized(err) }

// IsAnonymous says that it was refused to nobody: who asks gave no credentials.
func IsAnonymous(err error) bool {
	return IsForbidden(err) && strings.Contains(err.Error(), `"system:anonymous"`)
}

// IsConflict says that the object is not the one that was meant, or no longer as it was.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// IsExists says that one of this name is there already.
func IsExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// IsInvalid says that the server does not take the object as it is.
func IsInvalid(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// IsGone says that nothing can be made in the namespace any more: it is being deleted.
// The server calls that forbidden.
func IsGone(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IsTooLarge says that the object is larger than the server, or its store, takes.
func IsTooLarge(err error) bool {
	if apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	if apierrors.IsInvalid(err) {
		return apierrors.HasStatusCause(err, metav1.CauseType("FieldValueTooLong"))
	}
	words := status.ErrStatus.Message
	return strings.Contains(words, "request is too large") || strings.Contains(words, "message larger than max")
}

// IsAway says that the server did not answer for as long as was waited for it. What became
// of what was asked is not known.
func IsAway(err error) bool {
	_, ok := errors.AsType[*AwayError](err)
	return ok
}

// AwayError says that the server did not answer for as long as was waited for it.
type AwayError struct {
	For   time.Duration
	cause error
}

func (e *AwayError) Error() string {
	if webhook := WebhookOf(e.cause); webhook != "" {
		return fmt.Sprintf("no answer of a webhook (%s) for %s: %v", webhook, e.For.Round(time.Second), e.cause)
	}
	return fmt.Sprintf("no answer for %s: %v", e.For.Round(time.Second), e.cause)
}
func (e *AwayError) Unwrap() error { return e.cause }

// ExecError says that a command ran in a container and ended with a code.
type ExecError struct {
	Code   int
	Stderr string // its last words
}

func (e *ExecError) Error() string {
	text := fmt.Sprintf("the command ended with code %d", e.Code)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}
