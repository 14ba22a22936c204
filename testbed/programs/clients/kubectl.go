package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kubectl runs the program as people and scripts do, one process for each command.
type kubectl struct {
	recorder *recorder
	program  string
	flags    []string
	resource resource
	ledger   *ledger

	tried        int64
	acknowledged int64
}

const applied = "applied-by-kubectl"

func (k *kubectl) get(ctx context.Context) {
	k.run(ctx, "get", nil, "get", "configmaps,gadgets.shop.rehome.test,widgets.export.rehome.test", "--output=name")
}

func (k *kubectl) apply(ctx context.Context) {
	k.tried++
	wanted, err := json.Marshal(k.resource.object(applied, map[string]int64{"count": k.tried}).Object)
	if err != nil {
		panic(err) // the object is ours
	}
	output, ok := k.run(ctx, "apply", wanted, "apply", "--output=json", "--filename=-")
	if !ok {
		return
	}
	k.acknowledged = k.tried
	object := &unstructured.Unstructured{}
	if json.Unmarshal(output, &object.Object) == nil {
		k.ledger.acknowledge(object, "kubectl")
	}
}

func (k *kubectl) run(ctx context.Context, verb string, input []byte, arguments ...string) ([]byte, bool) {
	began := time.Now()
	command := exec.CommandContext(ctx, k.program, append(append([]string{}, k.flags...), arguments...)...)
	var output, complaint bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &output, &complaint
	err := command.Run()
	if err != nil {
		err = complaintOf(complaint.String())
	}
	k.recorder.requested("kubectl", verb, k.resource.name, began, err)
	return output.Bytes(), err == nil
}

// words are what kubectl calls the statuses, in the order in which they are looked for.
var words = []struct {
	text string
	code int
}{
	{"(Timeout)", 504}, {"(ServiceUnavailable)", 503}, {"currently unable to handle the request", 503},
	{"(Forbidden)", 403}, {"(NotFound)", 404}, {"(Conflict)", 409}, {"(TooManyRequests)", 429},
	// An answer without a body, as a proxy gives it.
	{`an error on the server ("")`, 502}, {"(BadGateway)", 502}, {"Bad Gateway", 502}, {"(InternalError)", 500},
}

var spaces = regexp.MustCompile(`\s+`)

func complaintOf(text string) error {
	message := spaces.ReplaceAllString(strings.TrimSpace(text), " ")
	message = message[:min(len(message), longestMessage)]
	for _, word := range words {
		if strings.Contains(text, word.text) {
			return statusError(word.code, message)
		}
	}
	return statusError(0, message)
}

// conclude: the object has the value that was acknowledged last, or a later one that was tried.
func (k *kubectl) conclude(final *unstructured.Unstructured) {
	value := k.resource.get(final, "count")
	if value < k.acknowledged || value > k.tried {
		k.ledger.lose(fmt.Sprintf("%s is %d, acknowledged to kubectl %d", applied, value, k.acknowledged))
	}
}
