package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	roles "github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp/generated/mockgcp/iam/admin/v1"
	buckets "github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp/generated/mockgcp/storage/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Updates that mockgcp refuses: the description and stage of a custom role, and labels that are taken from a bucket.

var rolePath = regexp.MustCompile(`^/v1/((?:projects|organizations)/[^/]+/roles/[^/:]+)$`)

func (c *cloud) serveUpdates(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if r.Method != http.MethodPatch {
		return false
	}
	if found := rolePath.FindStringSubmatch(r.URL.Path); found != nil && r.Host == "iam.googleapis.com" {
		c.updateRole(w, r, found[1], parse(body))
		return true
	}
	if found := bucketPath.FindStringSubmatch(r.URL.Path); found != nil && r.Host == "storage.googleapis.com" {
		return c.relabelBucket(w, r, found[1], parse(body))
	}
	return false
}

func (c *cloud) updateRole(w http.ResponseWriter, r *http.Request, name string, given map[string]any) {
	address := "https://iam.googleapis.com/v1/" + name
	if !c.exists(address) {
		notFound(w, name)
		return
	}
	err := c.rewrite(name, &roles.Role{}, func(role map[string]any) {
		patch(role, given, r.URL.Query().Get("updateMask"))
		role["name"], role["etag"] = name, base64.StdEncoding.EncodeToString([]byte(time.Now().Format(time.RFC3339Nano)))
	})
	if err != nil {
		fail(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	code, said := c.call(http.MethodGet, address, nil)
	answer(w, code, said)
}

// relabelBucket does what a merge of JSON does: a label that is null goes, one that is not named stays. The mock takes
// the labels that it is given for all of them, unless there are none.
func (c *cloud) relabelBucket(w http.ResponseWriter, r *http.Request, name string, given map[string]any) bool {
	changes, found := given["labels"]
	if !found {
		return false
	}
	if _, found := c.objects.hasBucket(name); !found {
		fail(w, http.StatusNotFound, "", "The specified bucket does not exist.")
		return true
	}
	kept := map[string]any{}
	err := c.rewrite("buckets/"+name, &buckets.Bucket{}, func(bucket map[string]any) {
		if changes != nil {
			kept = sub(bucket, "labels")
		}
		for key, value := range sub(given, "labels") {
			if value == nil {
				delete(kept, key)
			} else {
				kept[key] = value
			}
		}
		bucket["labels"] = kept
	})
	if err != nil {
		fail(w, http.StatusBadRequest, "", err.Error())
		return true
	}
	given["labels"] = kept
	changed, _ := json.Marshal(given)
	return c.serveMock(w, r, changed)
}

// rewrite changes the JSON of an object that a mock keeps.
func (c *cloud) rewrite(name string, object proto.Message, change func(map[string]any)) error {
	if err := c.store.Get(context.Background(), name, object); err != nil {
		return err
	}
	before, err := protojson.Marshal(object)
	if err != nil {
		return err
	}
	changed := parse(before)
	change(changed)
	after, _ := json.Marshal(changed)
	proto.Reset(object)
	if err := protojson.Unmarshal(after, object); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.store.Update(context.Background(), name, object)
}
