package kube

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/internal/spec"
)

// Half a list is no list: one that expires half-way is begun again once, and one that
// never ends is not followed.
func TestPagesThatDoNotComeToAnEnd(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	for _, tt := range []struct {
		name string
		page func(call int, from string) (next string, err error)
		want string
	}{
		{"two pages", func(_ int, from string) (string, error) { return map[string]string{"": "2"}[from], nil }, "2 []"},
		{"expires once", func(call int, from string) (string, error) {
			if call == 1 {
				return "", expired
			}
			return map[string]string{"": "2"}[from], nil
		}, "2 []"},
		{"expires always", func(_ int, from string) (string, error) {
			if from != "" {
				return "", expired
			}
			return "2", nil
		}, "0 [" + spec.ReasonUnreadable + "]"},
		{"the same page again", func(int, string) (string, error) { return "2", nil }, "0 [" + spec.ReasonUnreadable + "]"},
		{"fails on the second", func(_ int, from string) (string, error) {
			if from != "" {
				return "", context.DeadlineExceeded
			}
			return "2", nil
		}, "0 [" + spec.ReasonTimedOut + "]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := 0
			r := paged(t.Context(), &Cluster{}, time.Minute, func(_ context.Context, o metav1.ListOptions) ([]int, string, error) {
				next, err := tt.page(call, o.Continue)
				call++
				return []int{call}, next, err
			})
			reasons := []string{}
			if !r.ok() {
				reasons = append(reasons, r.why.Reason)
			}
			if got := fmt.Sprint(len(r.got), " ", reasons); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
