package flinkbuf.nexmark;

import org.apache.flink.table.functions.ScalarFunction;

/** How often a letter is in a text; SQL has no function for it. */
public final class CountChar extends ScalarFunction {

    public long eval(String text, String letter) {
        long count = 0;
        char wanted = letter.charAt(0);
        for (int place = 0; place < text.length(); place++) {
            if (text.charAt(place) == wanted) {
                count++;
            }
        }
        return count;
    }
}
